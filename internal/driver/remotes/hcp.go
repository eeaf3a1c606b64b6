package remotes

import "github.com/terrapulse/terrapulse/internal/driver/hcp"

var hcpKind = &Kind{
	Name:      "terraform-cloud",
	System:    "HCP Terraform",
	Parameter: "HcpTokenArn",
	Fix: "see whether the function's subnets let it reach HCP Terraform, by NAT, and whether HcpTokenArn names the token of a team " +
		"that may manage workspaces in the organization",
	New: func(o Options) Driver {
		return hcp.New(hcp.Options{Token: o.Token, Values: o.Values, CheckValues: o.CheckValues, Untouched: o.Untouched, Log: o.Log})
	},
}
