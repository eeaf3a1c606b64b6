//go:build !linux

package memory

// mappings are those of the program's own file, which cannot be released here.
type mappings struct{}

func ownFile() mappings { return mappings{} }

func (mappings) unmap() {}
