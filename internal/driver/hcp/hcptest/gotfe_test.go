package hcptest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// goTFE are integration tests of go-tfe for the calls that matter here. Each group is one process:
// they run at once, because most tests wait for seconds, one after the other. Not in these groups are tests that need
// what the stand-in lacks: teams, memberships, variable sets, VCS providers and the API of site
// administrators.
var goTFE = map[string][]string{
	"runs": {"RunsList_RunDependent", "RunsListQueryParams_RunDependent", "RunsCreate_RunDependent", "RunsReadWithOptions_RunDependent",
		"RunsRunEvents", "RunsTriggerReason", "RunsListForOrganization_RunDependent", "CommentsList_RunDependent", "RunEventsList_RunDependent", "RunEventsRead_RunDependent"},
	"confirmed runs": {"RunsConfirmedBy_RunDependent", "RunsApply_RunDependent", "RunsDiscard_RunDependent", "RunsRead_CostEstimate_RunDependent"},
	"cancelled runs": {"RunsCanceledAt_RunDependent", "RunsCancel_RunDependent", "RunsForceCancel_RunDependent", "RunsForceExecute_RunDependent"},
	"plans":          {"PlansRead_RunDependent", "PlansLogs_RunDependent", "PlansJSONOutput_RunDependent"},
	"applies":        {"AppliesRead_RunDependent", "AppliesLogs_RunDependent"},
	"workspaces": {"WorkspacesCreate", "WorkspacesRead", "WorkspacesReadByID", "WorkspacesReadSource", "WorkspacesUpdateByID", "WorkspacesUpdateWithDefaultExecutionMode",
		"WorkspacesDelete", "WorkspacesDeleteByID", "WorkspacesLock", "WorkspacesForceUnlock", "Workspaces_AddTags", "Workspaces_RemoveTags", "CanForceDeletePermission"},
	"deleted workspaces": {"WorkspacesSafeDelete", "WorkspacesSafeDeleteByID"},
	"uploads": {"ConfigurationVersionsList", "ConfigurationVersionsCreate", "ConfigurationVersionsRead", "ConfigurationVersionsUpload",
		"ConfigurationVersionsUploadTarGzip", "ConfigurationVersionsArchive", "ConfigurationVersionsDownload"},
	"variables":     {"VariablesList", "VariablesCreate", "VariablesRead", "VariablesUpdate", "VariablesDelete"},
	"agent pools":   {"AgentPoolsCreate", "AgentPoolsRead", "AgentPoolsDelete"},
	"notifications": {"NotificationConfigurationList", "NotificationConfigurationRead", "NotificationConfigurationDelete"},
	"states":        {"StateVersionsCurrent", "StateVersionsDownload"},
}

func TestGoTFE_PassesItsOwnTests(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for runs, for 15 seconds")
	}
	t.Parallel()
	tool := testtools.GoTFE(t)
	hcp := hcptest.New(t)
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "test-fixtures"), os.DirFS(filepath.Join(tool, "test-fixtures"))); err != nil {
		t.Fatal(err)
	}
	// The provider of null_resource is not installed here.
	module := filepath.Join(dir, "test-fixtures", "config-version", "main.tf")
	if err := os.WriteFile(module, []byte(`resource "terraform_data" "foo" {}`), 0o644); err != nil {
		t.Fatal(err)
	}
	type result struct {
		group string
		out   []byte
		err   error
	}
	results := make(chan result)
	for group, tests := range goTFE {
		cmd := exec.CommandContext(t.Context(), filepath.Join(tool, "go-tfe.test"), "-test.v", "-test.timeout=5m",
			"-test.run=^Test("+strings.Join(tests, "|")+")$")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "TFE_ADDRESS="+hcp.URL, "TFE_TOKEN="+hcp.Token, "TFC_RUN_TASK_URL="+hcp.URL+"/api/v2/ping")
		go func() {
			out, err := cmd.CombinedOutput()
			results <- result{group, out, err}
		}()
	}
	for range goTFE {
		r := <-results
		if r.err != nil {
			t.Errorf("%s: %v\n%s", r.group, r.err, r.out)
		}
		passed, skipped := strings.Count(string(r.out), "\n--- PASS: "), strings.Count(string(r.out), "\n--- SKIP: ")
		if want := len(goTFE[r.group]); passed != want {
			t.Errorf("%s: of %d tests, %d passed and %d were skipped", r.group, want, passed, skipped)
		}
	}
}
