// Package hcptest is a stand-in of HCP Terraform for tests: its HTTP API on loopback, with
// workspaces, variables, uploads, runs, states, agent pools and notifications. It runs the real
// Terraform on what is uploaded, and people are simulated by the test.
//
//	hcp := hcptest.New(t)
//	cloud := config.Cloud{Hostname: hcp.URL, Organization: hcp.Organization, Token: hcp.Token}
//	…                                        // a run is created in the workspace net-web
//	run := hcp.Workspace("net-web").Runs[0]
//	hcp.Await(run.ID, "planned")             // until its status is this
//	hcp.Confirm(run.ID, "jane")              // as Jane does in the browser
//	hcp.Await(run.ID, "applied")
//
// A run goes through the statuses of HCP Terraform by itself, and rests where a person must decide:
// at "planned" or, with checks, at "cost_estimated", "policy_checked", "policy_override",
// "post_plan_completed" or "post_plan_awaiting_decision". Only one run of a workspace is at work:
// later ones are "pending". Check adds cost estimates, policies and run tasks to runs.
//
// Hold makes each run stay in a status until the test releases it, so that a test decides what
// happens meanwhile. HoldAction delays the effect of an action. Show lets a run have a status that
// nobody knows. Fail answers requests with errors, or loses answers before or after the effect.
// Requests and Count say what was requested.
//
// URL is plain HTTP. SecureURL is the same server with TLS, whose certificate CA signed: the
// command line of Terraform accepts nothing else. An upload, or a request for a log, that carries a
// token fails the test: in reality these signed URLs are on another host.
//
// Details of this API that are easy to overlook: only the answer to the creation of a configuration version
// has its upload URL. Lists of runs lack those that are plan-only, unless filter[operation] names
// them. An action on a run is only queued: until it has its effect, the run is shown as before. New
// workspaces have structured-run-output-enabled, with which logs are lines of JSON. In reality, lists
// of runs are limited to 30 requests a minute, everything else to 30 a second.
package hcptest
