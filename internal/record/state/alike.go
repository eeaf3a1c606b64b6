package state

import "strings"

// Alike is an error or a reason of a task without the task's name. It is equal for tasks for which
// it says the same.
func Alike(text, task string) string {
	if task == "" {
		return text
	}
	var b strings.Builder
	rest := 0 // what follows is not written yet
	for {
		at := strings.Index(text[rest:], task)
		if at < 0 {
			b.WriteString(text[rest:])
			return b.String()
		}
		at += rest
		end := at + len(task)
		if part := at > 0 && inName(text[at-1]) || end < len(text) && inName(text[end]); part { // of another word
			b.WriteString(text[rest:end])
		} else {
			b.WriteString(text[rest:at] + "TASK")
		}
		rest = end
	}
}

// inName reports whether names of tasks have such a character.
func inName(c byte) bool {
	return c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
