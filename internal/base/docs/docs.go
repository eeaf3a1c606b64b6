// Package docs names pages of the documentation in messages. A user of a package or of the AWS console
// has no folder docs, so a message has the address.
package docs

// Page returns the address of a page, which is named as in the folder docs, perhaps with the anchor of a
// heading: modules.md#providers.
func Page(name string) string {
	return "https://github.com/terrapulse/terrapulse/blob/main/docs/" + name
}
