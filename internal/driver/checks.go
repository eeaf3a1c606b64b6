package driver

// Checks is what the check blocks of a module have found in an apply.
type Checks struct {
	Failing []string // the blocks that have failed, with their messages
	Unknown []string // the addresses of those that could not be evaluated
	Err     error    // why that cannot be read; then the others are empty
}
