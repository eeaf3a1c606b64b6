package state

// OpenPrefix is the collection of the launches that the instances of a cluster may take.
const OpenPrefix = "open/"

// OpenKey returns the key of the record by which instances take a launch.
func OpenKey(launch string) string { return OpenPrefix + element(launch) }

// Open is a launch of one run that waits for an instance with room. The instance that deletes the record has the launch.
type Open struct {
	Launch Launch `json:"launch"`
	Works  string `json:"works"` // what the instance must work with, as in Runner.Definition
}

func (o *Open) check() error { return o.Launch.check() }
