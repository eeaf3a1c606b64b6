package remotes

import "github.com/terrapulse/terrapulse/internal/driver/hcp"

var hcpKind = &Kind{
	Name:   "terraform-cloud",
	System: "HCP Terraform",
	Fix: "see whether this machine reaches hostname (HTTPS_PROXY names a proxy), and whether token, or TFC_TOKEN, is that of a team that may manage " +
		"workspaces in the organization",
	FixInAWS: "see whether the function's subnets let it reach HCP Terraform, by NAT, and whether hcp_token in the stack's secret is that of a team " +
		"that may manage workspaces in the organization",
	New: func(o Options) Driver {
		return hcp.New(hcp.Options{Token: o.Token, Values: o.Values, CheckValues: o.CheckValues, Untouched: o.Untouched, Log: o.Log})
	},
}
