package main

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// The template of a release says the same as that of the checkout, without aliases and merges.
func TestResolved_TemplateHasTheSameValuesWithoutAliases(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(testtools.Root(t), "template.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	template := resolved(document.Content[0])
	if before, after := count(&document), count(template); before == 0 || after != 0 {
		t.Errorf("the template has %d anchors, aliases and merges, and that of a release %d", before, after)
	}
	var want, got any
	if err := document.Decode(&want); err != nil {
		t.Fatal(err)
	}
	if err := template.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Error("the template of a release has other values")
	}
}

// A key of the mapping itself has precedence over one that is merged, wherever it is.
func TestResolved_OwnKeysWin(t *testing.T) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte("a: &a { x: 1, y: !Ref B }\nb: { <<: *a, x: 2 }\nc: [*a]\n"), &document); err != nil {
		t.Fatal(err)
	}
	out, err := yaml.Marshal(resolved(document.Content[0]))
	if err != nil {
		t.Fatal(err)
	}
	if want := "a: {x: 1, y: !Ref B}\nb: {x: 2, y: !Ref B}\nc: [{x: 1, y: !Ref B}]\n"; string(out) != want {
		t.Errorf("%s, want %s", out, want)
	}
}

// count returns the number of anchors, aliases and merges below a node.
func count(n *yaml.Node) int {
	found := 0
	if n.Kind == yaml.AliasNode || n.Anchor != "" || n.Tag == "!!merge" {
		found = 1
	}
	for _, child := range n.Content {
		found += count(child)
	}
	return found
}
