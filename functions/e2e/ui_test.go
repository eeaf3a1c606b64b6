//go:build linux

package e2e

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// ui is a running `terrapulse ui`, with a viewer who has opened its address.
type ui struct {
	c      *cloud
	client *http.Client
	root   *url.URL
}

// startUI starts `terrapulse ui` of the stack, with more variables, and opens its address.
func (c *cloud) startUI(env ...map[string]string) *ui {
	c.t.Helper()
	u := &ui{c: c, client: &http.Client{}}
	u.client.Jar, _ = cookiejar.New(nil)
	var err error
	if u.root, err = url.Parse(c.launchUI(env...)); err != nil {
		c.t.Fatal(err)
	}
	u.get(u.root.RequestURI())
	return u
}

// launchUI starts `terrapulse ui` and returns the address that it prints.
func (c *cloud) launchUI(env ...map[string]string) string {
	c.t.Helper()
	cmd := exec.Command(built(c.t, "terrapulse"), "ui", "-stack=e2e", "-json")
	all := map[string]string{"HOME": c.dir, "PATH": os.Getenv("PATH")}
	for _, more := range append([]map[string]string{c.env}, env...) {
		maps.Copy(all, more)
	}
	for name, value := range all {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C in the terminal ends the demonstration first
	var log testtools.Output
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			c.t.Errorf("terrapulse ui: %v\n%s", err, tail(log.String()))
		}
	})
	var said struct{ URL string }
	if err := json.NewDecoder(out).Decode(&said); err != nil {
		c.t.Fatalf("terrapulse ui says no address: %v\n%s", err, log.String())
	}
	return said.URL
}

func (u *ui) get(path string) (status int, page string) {
	u.c.t.Helper()
	at, err := u.root.Parse(path)
	if err != nil {
		u.c.t.Fatal(err)
	}
	res, err := u.client.Get(at.String())
	if err != nil {
		u.c.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		u.c.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// press does what a button of the task lb does.
func (u *ui) press(action string, form url.Values) (status int, page string) {
	u.c.t.Helper()
	at, _ := u.root.Parse("/ui/tasks/lb/" + action)
	res, err := u.client.PostForm(at.String(), form)
	if err != nil {
		u.c.t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

// lb returns what the page of the task lb shows.
func (u *ui) lb() (page struct {
	Task apispec.TaskOverview
	Plan *apispec.WaitingPlan
}) {
	u.c.t.Helper()
	status, text := u.get("/ui/tasks/lb.json")
	if err := json.Unmarshal([]byte(text), &page); err != nil || status != http.StatusOK {
		u.c.t.Fatalf("the page of lb: %d, %v: %s", status, err, text)
	}
	return page
}

// watch keeps a page open, as a browser does, until its end is called.
func (u *ui) watch(topic string) (end func()) {
	u.c.t.Helper()
	ctx, end := context.WithCancel(u.c.t.Context())
	at, _ := u.root.Parse("/ui/news?topic=" + topic)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		u.c.t.Fatal(err)
	}
	res, err := u.client.Do(req)
	if err != nil || res.StatusCode != http.StatusOK {
		u.c.t.Fatalf("stream: %v, %v", res, err)
	}
	go func() {
		defer res.Body.Close()
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		}
	}()
	u.c.t.Cleanup(end)
	return end
}

func TestUI_PlanIsApprovedAndWatchedWithAWSCredentials(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{parameters: rehearsal.Parameters{"ActArns": "arn:aws:iam::123456789012:role/NetworkOperator,arn:aws:iam::123456789012:user/eve," + ann.arn}})
	address := c.serveURL(ann, bob)
	c.register("web-1", 8080)
	c.module(slowOnce(c.dir))
	c.tasks(c.s3Backend(), "lb")
	const operator = "arn:aws:iam::123456789012:role/NetworkOperator"
	c.addConfig(fmt.Sprintf("approval {\n  mode    = \"always\"\n  require = 2\n  from    = [%q, %q]\n}\n", operator, ann.arn))
	c.file("../slow", "")
	c.mustPush()
	u := c.startUI(address.env, ann.environ())
	c.tickUntil("the plan waits", func() bool { return u.lb().Plan != nil })
	plan := u.lb().Plan
	c.tickUntil("a message says how to see it", func() bool { return strings.Contains(c.message("run_waiting"), "; See: terrapulse ui -stack=e2e") })
	if status, page := u.get("/ui/tasks/lb"); status != http.StatusOK || !strings.Contains(page, "local_file.out") || !strings.Contains(page, ann.arn) {
		t.Errorf("the page does not show the plan, or not who decides: %d %s", status, page)
	}
	reader := c.startUI(address.env, bob.environ())
	if status, page := reader.get("/ui/tasks/lb"); status != http.StatusOK || !strings.Contains(page, "local_file.out") || !strings.Contains(page, "You may only read here") ||
		strings.Contains(page, "/approve") {
		t.Errorf("the page of a viewer who may only read: %d %s", status, page)
	}
	if status, page := reader.press("approve", url.Values{"plan": {plan.ID}}); status != http.StatusForbidden {
		t.Errorf("a viewer who may only read has approved: %d %s", status, page)
	}
	if status, _, said, err := c.handOn(httptest.NewRequest(http.MethodPost, "/v1/tasks/lb/approval", nil), []byte(`{"decision":"approve","plan":"00000000"}`), bob); err != nil ||
		status != http.StatusForbidden || !strings.Contains(string(said), "ActArns names who may act") {
		t.Errorf("a caller who may only read has approved: %d %v %s", status, err, said)
	}
	if status, page := u.press("approve", url.Values{"plan": {"another-plan"}}); status != http.StatusConflict {
		t.Errorf("another plan was approved: %d %s", status, page)
	}
	c.oneApproves(plan.ID)
	if status, page := u.press("approve", url.Values{"plan": {plan.ID}, "comment": {"as planned"}}); status != http.StatusOK {
		t.Fatalf("approve: %d %s", status, page)
	}
	c.tickUntil("it is applied", func() bool {
		run := u.lb().Task.Run
		return run != nil && run.State == apispec.RunStateRunning
	})
	run := "/ui/tasks/lb/runs/" + u.lb().Task.Run.ID
	c.until("its output is shown while it runs", func() bool {
		status, page := u.get(run + "/output")
		return status == http.StatusOK && strings.Contains(page, "terraform_data.slow")
	})
	if c.out("lb") != "" && u.lb().Task.Run == nil {
		t.Error("the run has ended already")
	}
	if err := os.Remove(filepath.Join(c.dir, "slow")); err != nil {
		t.Fatal(err)
	}
	c.until("the page shows that it succeeded", func() bool {
		last := u.lb().Task.LastRun
		return last != nil && last.State == apispec.RunStateSucceeded
	})
	c.until("its whole output is shown", func() bool { _, page := u.get(run + "/output"); return strings.Contains(page, "Apply complete!") })
	runs := c.runs("lb")
	if a := runs[len(runs)-1].Approval; a == nil || a.By != ann.arn || !a.Authenticated || a.Comment != "as planned" || len(a.Before) != 1 || a.Before[0].As != operator {
		t.Errorf("approved by %+v", a)
	}

	// Open pages take one request at a time, however many there are.
	for _, topic := range []string{"", "lb", "lb"} {
		u.watch(topic)
	}
	before, began := address.passed(), time.Now()
	c.until("the pages have asked three times", func() bool { return address.passed()[news]-before[news] >= 3 })
	took := time.Since(began)
	for request, n := range address.passed() {
		if n -= before[request]; request == news && n > 2+int(took/(5*time.Second)) || request != news && n > 0 {
			t.Errorf("in %s, 3 pages took %d times %s", took, n, request)
		}
	}
}

// oneApproves approves a plan that two people must approve, as one of them: in two sessions of a role, which are one
// person. A person who may act, and is not one of the approvers, is refused.
func (c *cloud) oneApproves(plan string) {
	c.t.Helper()
	for _, tt := range []struct {
		arn    string
		status int
	}{
		{"arn:aws:iam::123456789012:user/eve", http.StatusForbidden},
		{"arn:aws:sts::123456789012:assumed-role/NetworkOperator/monday", http.StatusAccepted},
		{"arn:aws:sts::123456789012:assumed-role/NetworkOperator/monday", http.StatusAccepted},
		{"arn:aws:sts::123456789012:assumed-role/NetworkOperator/tuesday", http.StatusAccepted},
	} {
		body := fmt.Sprintf(`{"decision":"approve","plan":%q}`, plan)
		request := httptest.NewRequest(http.MethodPost, "/v1/tasks/lb/approval", nil)
		request.Header.Set("Content-Type", "application/json")
		if status, _, said, err := c.handOn(request, []byte(body), caller{arn: tt.arn}); err != nil || status != tt.status {
			c.t.Errorf("%s approves: %d, %v %s", tt.arn, status, err, said)
		}
		c.tick()
		if wait, runs := c.waits("lb"), c.runs("lb"); wait == nil || wait.ID != plan || len(runs) > 0 || c.out("lb") != "" {
			c.t.Errorf("after %s has approved, it waits for %+v: %+v", tt.arn, wait, runs)
		}
	}
	record, err := state.Read[state.Task](c.t.Context(), c.store, state.TaskKey("lb"))
	if err != nil {
		c.t.Fatal(err)
	}
	if given := record.Data.Run.Approvals; len(given) != 1 || given[0].By != "arn:aws:sts::123456789012:assumed-role/NetworkOperator/monday" {
		c.t.Errorf("the approvals are %+v", given)
	}
}

const news = "GET /v1/overview"

func TestUI_SaysWhatToDoWhenTheDeploymentDoesNotAnswer(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{})
	if out, err := c.terrapulse("ui", "-stack=elsewhere"); exitCode(err) != 15 || !strings.Contains(out, "find stack elsewhere in "+c.env["AWS_REGION"]) || !strings.Contains(out, "check the name and the region") {
		t.Errorf("%v\n%s", err, out)
	}
	address := c.serveURL(ann)
	file := filepath.Join(c.dir, "credentials")
	credentials := func(by caller) map[string]string {
		text := "[default]\naws_access_key_id = " + by.AccessKeyID + "\naws_secret_access_key = " + by.SecretAccessKey + "\naws_session_token = " + by.SessionToken + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SHARED_CREDENTIALS_FILE": file}
	}
	u := c.startUI(address.env, credentials(ann))
	if status, page := u.get("/ui/tasks.json"); status != http.StatusOK || !strings.Contains(page, "terrapulse bundle push") {
		t.Errorf("before there is a bundle: %d %s", status, page)
	}
	c.register("web-1", 8080)
	c.module("")
	c.tasks(consulBackend, "lb")
	c.addConfig("api {\n  url = \"https://network.example.com/\"\n}\n")
	c.mustPush()
	c.until("the task is shown", func() bool {
		status, page := u.get("/ui/tasks.json")
		return status == http.StatusOK && strings.Contains(page, `"lb"`)
	})

	says := func(what, want string) {
		t.Helper()
		c.until(what, func() bool {
			status, page := u.get("/ui/tasks.json")
			return status != http.StatusOK && strings.Contains(page, want)
		})
		if status, page := u.press("hold", url.Values{}); status < 400 || !strings.Contains(page, want) {
			t.Errorf("%s: %d %s", what, status, page)
		}
	}
	shown := func(what string) {
		t.Helper()
		c.until(what, func() bool { status, _ := u.get("/ui/tasks.json"); return status == http.StatusOK })
	}
	c.tickUntil("a message links to the run", func() bool {
		return strings.Contains(c.message("run_succeeded"), "; See: https://network.example.com/ui/tasks/lb/runs/")
	})
	address.throttled(true)
	says("the function is throttled", "Rate Exceeded.")
	address.throttled(false)
	shown("it answers again")

	address.expire(ann)
	says("the credentials have expired", "sign in to AWS again")
	renewed := ann
	renewed.AccessKeyID, renewed.SessionToken = "AKIARENEWED", "another session of Ann"
	address.mu.Lock()
	address.callers[renewed.AccessKeyID] = renewed
	address.mu.Unlock()
	credentials(renewed)
	shown("the credentials were renewed, and the same page goes on")

	c.manyTasks(1000, "lb", func(task *state.Task) {
		for len(task.Ended.Last.Reason.Text) < 6_500 {
			task.Ended.Last.Reason.Text += rand.Text()
		}
	})
	sent := func(path, shows string) int {
		before := c.taken().sentBytes
		c.until(path+" shows the tasks", func() bool {
			status, page := u.get(path)
			return status == http.StatusOK && strings.Contains(page, shows)
		})
		return int(c.taken().sentBytes - before)
	}
	if size := sent("/ui/tasks.json", `"many-0000"`); size > 1<<20 {
		t.Errorf("a page of tasks is an answer of %d bytes", size)
	}
	if size := sent("/ui/runs.json", `"runs"`); size > 1<<20 {
		t.Errorf("the page of runs is an answer of %d bytes", size)
	}
	// An answer of 7 MB, which is compressed to less than the 4.5 MB that Lambda's 6 MB hold in base64.
	whole := httptest.NewRequest(http.MethodGet, "/v1/overview", nil)
	whole.Header.Set("Accept-Encoding", "gzip")
	if status, _, answer, err := c.handOn(whole, nil, ann); err != nil || status != http.StatusOK || len(answer) < 7<<19 || len(answer) > 9<<19 {
		t.Errorf("the answer about all tasks: %d, %v, %d bytes", status, err, len(answer))
	}
	if status, _, said := c.ask(http.MethodGet, "/v1/overview", ""); status != http.StatusRequestEntityTooLarge || !strings.Contains(said, "a list in parts (limit, after)") {
		t.Errorf("without compression: %d %.500s", status, said)
	}
}

// addConfig adds text to the task files.
func (c *cloud) addConfig(text string) {
	c.t.Helper()
	tasks, err := os.ReadFile(filepath.Join(c.dir, "files", "tasks.hcl"))
	if err != nil {
		c.t.Fatal(err)
	}
	c.file("tasks.hcl", string(tasks)+text)
}

// message returns the message of the first event of a kind on the bus; "" if there is none.
func (c *cloud) message(kind string) string {
	for _, e := range c.bus.Events() {
		if e.DetailType == kind {
			return e.Detail.Message
		}
	}
	return ""
}

func exitCode(err error) int {
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}
