// Package list makes lists from other lists, which the package slices of the standard
// library does with iterators only.
package list

// Map returns what f makes of each value. It is never nil.
func Map[A, B any](values []A, f func(A) B) []B {
	made := make([]B, len(values))
	for i, v := range values {
		made[i] = f(v)
	}
	return made
}
