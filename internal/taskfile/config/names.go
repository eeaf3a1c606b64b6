package config

import "sync"

// taskNames finds the tasks of a configuration by their names: a tick looks up each of
// thousands of records.
type taskNames struct {
	of *Task // the first of the tasks, and how many they are: a copy may get others
	n  int
	at map[string]int

	order func() *Order
}

// nameTasks makes Task fast. It is called when Tasks is complete.
func (c *Config) nameTasks() {
	if len(c.Tasks) == 0 {
		return
	}
	tasks := c.Tasks
	names := &taskNames{of: &c.Tasks[0], n: len(c.Tasks), at: make(map[string]int, len(c.Tasks))}
	names.order = sync.OnceValue(func() *Order { return newOrder(tasks) })
	for i := range c.Tasks {
		if _, twice := names.at[c.Tasks[i].Name]; !twice {
			names.at[c.Tasks[i].Name] = i
		}
	}
	c.names = names
}

// Task returns the task with this name.
func (c *Config) Task(name string) (*Task, bool) {
	if n := c.names; n != nil && n.n == len(c.Tasks) && n.of == &c.Tasks[0] {
		i, ok := n.at[name]
		if !ok {
			return nil, false
		}
		if c.Tasks[i].Name == name {
			return &c.Tasks[i], true
		}
	}
	for i := range c.Tasks {
		if c.Tasks[i].Name == name {
			return &c.Tasks[i], true
		}
	}
	return nil, false
}
