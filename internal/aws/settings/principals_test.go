package settings_test

import (
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/aws/settings"
)

func TestPrincipals_IncludeCallersByTheirARNOrRole(t *testing.T) {
	const (
		user    = "arn:aws:iam::123456789012:user/team/ann"
		session = "arn:aws:sts::123456789012:assumed-role/NetworkOperator/ann@example.com"
		sso     = "arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Network_0123456789abcdef/ann@example.com"
	)
	for _, tt := range []struct {
		principals, caller string
		want               bool
	}{
		{"*", user, true},
		{"*", session, true},
		{"", user, false},
		{user, user, true},
		{"arn:aws:iam::123456789012:user/team/*", user, true},
		{"arn:aws:iam::123456789012:user/other/*", user, false},
		{"arn:aws:iam::123456789012:user/team/an", user, false},
		{"arn:aws:iam::123456789012:role/NetworkOperator", session, true},
		{"arn:aws:iam::123456789012:role/team/NetworkOperator", session, true}, // the path is ignored
		{"arn:aws:iam::999999999999:role/NetworkOperator", session, false},
		{"arn:aws:iam::123456789012:role/Network", session, false},
		{"arn:aws:iam::123456789012:role/*Operator, " + user, session, true},
		{"arn:aws:sts::123456789012:assumed-role/NetworkOperator/ann@example.com", session, true},
		{"arn:aws:sts::123456789012:assumed-role/NetworkOperator/bob@example.com", session, false},
		{"arn:aws:iam::123456789012:role/aws-reserved/sso.amazonaws.com/*/AWSReservedSSO_Network_*", sso, true},
		{"arn:aws:iam::123456789012:role/aws-reserved/sso.amazonaws.com/*/AWSReservedSSO_Other_*", sso, false},
		{"arn:aws:iam::123456789012:*", session, true},
		{"*", "", true},
		{user, "", false},
	} {
		var p settings.Principals
		if err := p.UnmarshalText([]byte(tt.principals)); err != nil {
			t.Errorf("%s: %v", tt.principals, err)
		}
		if got := p.Include(tt.caller); got != tt.want {
			t.Errorf("%q include %s: %v", tt.principals, tt.caller, got)
		}
	}
}

func TestPrincipals_RefuseWhatAllowsMoreThanItSays(t *testing.T) {
	for text, want := range map[string]string{
		"arn:aws:iam::123456789012:role/team/*": "AWS does not tell the path",
		"NetworkOperator":                       "is not the ARN",
	} {
		if err := new(settings.Principals).UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
