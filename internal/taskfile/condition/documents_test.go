package condition

import (
	"encoding/json"
	"strings"
	"testing"
)

// decoded returns the documents of an answer of Consul.
func decoded(t *testing.T, v View, answer string) documents {
	t.Helper()
	got, err := v.Decode(json.NewDecoder(strings.NewReader(answer)))
	if err != nil {
		t.Fatal(err)
	}
	return got.(documents)
}

func TestDocument_HasNothingThatConsulChangesByItself(t *testing.T) {
	for _, test := range []struct{ kind, answer, want string }{
		{"service-intentions",
			`[{"Name": "web", "Sources": [{"Name": "a", "LegacyID": "1", "LegacyCreateTime": "t", "LegacyUpdateTime": "t"}], "Hash": 18446744073709551615, "CreateIndex": 1, "ModifyIndex": 2}]`,
			`{"Name":"web","Sources":[{"Name":"a"}]}`},
		{"inline-certificate", `[{"Name": "c", "Certificate": "PUBLIC", "PrivateKey": "SECRET"}]`, `{"Certificate":"PUBLIC","Name":"c"}`},
		{"http-route", `[{"Rules": null, "Name": "r", "Status": {"Conditions": []}, "Config": {"Status": 1}}]`, `{"Config":{"Status":1},"Name":"r","Rules":null}`},
	} {
		got := decoded(t, entriesView{kind: test.kind}, test.answer)
		if len(got) != 1 || got[0].text != test.want {
			t.Errorf("%s: %v, want %s", test.kind, got, test.want)
		}
	}
}

func TestDetail_NamesTheFieldsOfADocument(t *testing.T) {
	detail := func(answer string) Detail {
		d := decoded(t, entriesView{kind: "service-defaults", name: "web"}, answer)[0]
		return ParseDetail(d.element(Source{}).Detail)
	}
	now := detail(`{"Name": "web", "Protocol": "http", "Added": 1, "Same": {"b": 1, "a": 2}}`)
	before := detail(`{"Same": {"a": 2, "b": 1}, "Name": "web", "Protocol": "tcp", "Gone": 1}`)
	if got := strings.Join(now.Differs(before), " "); got != "Added Gone Protocol" {
		t.Errorf("the fields that differ are %q", got)
	}
}
