package list

import (
	"slices"
	"strings"
	"testing"
)

func TestSort_KeepsTheOrderOfEqualValues(t *testing.T) {
	values := []string{"b1", "a1", "b0", "a0", "c"}
	Sort(values, func(a, b string) int { return strings.Compare(a[:1], b[:1]) })
	if want := []string{"a1", "a0", "b1", "b0", "c"}; !slices.Equal(values, want) {
		t.Errorf("%v, want %v", values, want)
	}
}
