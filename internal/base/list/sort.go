package list

import "sort"

// Sort sorts values, and keeps the order of those that compare as equal. Unlike that of the package
// slices, its code is there once, not once for each type: 8 KB, which counts in a function of AWS. It is for
// lists that are short or seldom sorted.
func Sort[T any](values []T, compare func(a, b T) int) {
	sort.SliceStable(values, func(i, j int) bool { return compare(values[i], values[j]) < 0 })
}
