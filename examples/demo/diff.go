package main

import "strings"

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// The marks that diff puts before lines.
const (
	kept    = " "
	added   = "+"
	removed = "-"
)

// diff returns the marked lines of both texts in order, keeping as many as possible. It is for
// small files: its time is the product of their lengths.
func diff(from, to []string) []string {
	// common[i][j] is the length of the longest common subsequence of
	// from[i:] and to[j:].
	common := make([][]int, len(from)+1)
	for i := range common {
		common[i] = make([]int, len(to)+1)
	}
	for i := len(from) - 1; i >= 0; i-- {
		for j := len(to) - 1; j >= 0; j-- {
			if from[i] == to[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []string
	i, j := 0, 0
	for i < len(from) || j < len(to) {
		switch {
		case i < len(from) && j < len(to) && from[i] == to[j]:
			out = append(out, kept+from[i])
			i, j = i+1, j+1
		case j == len(to) || i < len(from) && common[i+1][j] >= common[i][j+1]:
			out = append(out, removed+from[i])
			i++
		default:
			out = append(out, added+to[j])
			j++
		}
	}
	return out
}
