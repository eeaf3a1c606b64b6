package config

// Dir is what relative paths in the files are relative to: an absolute path.
func (c *Config) Dir() string { return c.dir }

// Files are the files that were read, in their order, as a person named them:
// absolute, or relative to Dir.
func (c *Config) Files() []string { return c.files }

// WrittenModule is the task's module as the file says it: a local one is
// absolute, or relative to Dir.
func (t *Task) WrittenModule() string { return t.written }
