// Package suggest finds what people probably meant when they misspelt a name.
package suggest

import (
	"fmt"
	"slices"

	"github.com/agext/levenshtein"
)

// Nearest returns the candidate that name is a likely misspelling of.
func Nearest(name string, candidates []string) (string, bool) {
	if len(name) > 100 {
		return "", false
	}
	best, found := "", false
	least := 3 // swapped letters are a distance of 2
	if len(name) < 4 {
		least = 2
	}
	for _, c := range candidates {
		dist := levenshtein.Distance(name, c, nil)
		if dist > 1 && sortedLetters(name) == sortedLetters(c) {
			dist-- // swapped letters are likelier than wrong ones
		}
		if dist < least {
			best, least, found = c, dist, true
		}
	}
	return best, found
}

// Meant is the end of an error about an unknown name: which candidate was probably meant; "" if none was.
func Meant(name string, candidates []string) string {
	near, ok := Nearest(name, candidates)
	if !ok {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", near)
}

func sortedLetters(text string) string {
	letters := []byte(text)
	slices.Sort(letters)
	return string(letters)
}
