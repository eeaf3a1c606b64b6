package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// While HCP Terraform works, the instance reads its output there. A store has it as soon as
// a step of the run has copied it.
func TestLogs_FollowShowsWhatHCPTerraformPrints(t *testing.T) {
	s, hcp := newCloudSite(t)
	s.write("mod/slow.tf", `
resource "terraform_data" "slow" {
  provisioner "local-exec" {
    command = "echo it works; until test -e `+s.path("go")+`; do sleep 0.05; done"
  }
}
`)
	port := testtools.FreePort(t)
	s.write("cts.hcl", strings.Replace(s.cloudFile(port, ""), "  workspace_prefix", fmt.Sprintf(`  notification {
    url   = "http://127.0.0.1:%d/v1/notifications/terraform-cloud"
    token = "{{ env \"TFC_ORGANIZATION\" }}-key"
  }
  workspace_prefix`, port), 1))
	p := s.start("-config-file", s.path("cts.hcl"))
	address := "-http-addr=" + p.served()
	eventually(t, "the run goes on in HCP Terraform", func() bool { return strings.Contains(s.runInTest("runs", "lb").stdout, "in HCP Terraform: ") })
	type following struct {
		stdout, stderr testtools.Output
		code           chan int
	}
	follow := map[string]*following{"-store=sqlite:" + s.path("state.db"): nil, address: nil}
	for where := range follow {
		f := &following{code: make(chan int, 1)}
		follow[where] = f
		go func() { f.code <- run(t.Context(), []string{"logs", "-follow", where, "lb"}, &f.stdout, &f.stderr) }()
	}
	over := follow[address]
	eventually(t, "the output of the apply is printed while it goes on", func() bool { return strings.Contains(over.stdout.String(), "it works") })
	if text := over.stdout.String(); strings.Contains(text, "Apply complete") {
		t.Fatalf("the run has ended:\n%s", text)
	}
	resp, err := http.Get(p.served() + "/ui/tasks/lb/runs/" + s.shown("lb")[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, string(page), "it works", `data-follow="yes"`)
	s.write("go", "")
	for where, f := range follow {
		if code := <-f.code; code != exitOK {
			t.Errorf("%s: exit code %d: %s", where, code, f.stderr.String())
		}
		text := f.stdout.String()
		wantText(t, f.stderr.String(), "of task lb: succeeded")
		wantText(t, text, "was created in the workspace", "The plan is confirmed", "Apply complete!")
		for _, once := range []string{"Plan: 2 to add", "it works\n", "Apply complete!"} {
			if n := strings.Count(text, once); n != 1 {
				t.Errorf("%s prints %q %d times:\n%s", where, once, n, text)
			}
		}
	}
	// HCP Terraform enables only a notification whose destination accepts it.
	if log := p.stderr.String(); hcp.Count("POST workspaces/*/notification-configurations") != 1 || strings.Contains(log, "sends no notifications") {
		t.Errorf("notifications are not set up:\n%s", log)
	}
	if text := s.runInTest("logs", "lb").stdout; text != over.stdout.String() {
		t.Errorf("who followed has read\n%s\nand the run has printed\n%s", over.stdout.String(), text)
	}
}
