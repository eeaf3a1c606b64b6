package condition

import (
	"fmt"
	"slices"
	"testing"
)

func TestCommonPrefixes_AreFewAndLong(t *testing.T) {
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("app/%03d", i), fmt.Sprintf("net/%03d/a", i), fmt.Sprintf("sec/x/%03d", i))
	}
	for _, c := range []struct {
		name        string
		paths, want []string
	}{
		{"a folder", []string{"app/0", "app/1", "app/2", "app/3", "app/4"}, []string{"app/"}},
		{"few paths", []string{"app/0", "app/1", "net"}, []string{"app/0", "app/1", "net"}},
		{"a path below another", []string{"app", "app/0", "app/1", "net/1"}, []string{"app", "net/1"}},
		{"folders", []string{"app/0", "app/1", "app/2", "con/a", "con/b", "net"}, []string{"app/", "con/", "net"}},
		{"many", many, []string{"app/", "net/", "sec/x/"}},
		{"without a common letter", []string{"a", "b", "c", "d", "e", "f"}, []string{"a", "b", "c", "d", "e", "f"}},
		{"everything", []string{"", "a", "b/c", "d", "e", "f"}, []string{""}},
		{"one", []string{"app"}, []string{"app"}},
		{"none", nil, nil},
	} {
		slices.Sort(c.paths)
		if got := slices.Compact(commonPrefixes(c.paths, 4)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
