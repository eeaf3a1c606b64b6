package policycheck

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The example of docs/trust.md has the fields that a check gets, in their order.
func TestDocs_ExampleIsTheInputOfACheck(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/trust.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```json\n(.*?)```").FindSubmatch(bytes.ReplaceAll(doc, []byte("\r\n"), []byte("\n")))
	if example == nil {
		t.Fatal("docs/trust.md has no example")
	}
	var in Input
	decoder := json.NewDecoder(bytes.NewReader(example[1]))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&in); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := json.Compact(&want, example[1]); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(again)); diff != "" {
		t.Errorf("the example is not what a check gets (-example +input):\n%s", diff)
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Input]()) {
		if name := f.Tag.Get("json"); !regexp.MustCompile("(?m)^\\| `" + name + "[`.]").Match(doc) {
			t.Errorf("the table does not explain %s", name)
		}
	}
}
