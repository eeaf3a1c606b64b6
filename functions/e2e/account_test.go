//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstest"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo/dynamotest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// account is an AWS account in which nothing is deployed yet, for commands that create and delete a
// deployment. Its services are those of the deployment, once there is one; moto answers the rest.
type account struct {
	t        testing.TB
	dir      string // with a copy of the checkout, and path, the folder of stand-ins
	env      map[string]string
	moto     *httputil.ReverseProxy
	consul   *consultest.Server // of the account, which the deployment uses
	requests chan request       // of the stand-in for sam
	url      *functionURL
	prebuilt string

	mu      sync.Mutex
	cloud   *cloud            // nil before and after the deployment
	was     *cloud            // the deployment that was deleted: table and bucket stay
	secrets map[string]string // by ARN
}

// request is a call of the stand-in for sam.
type request struct {
	folder    string
	arguments []string
	answer    chan error
}

// newAccount returns an account with a Consul. If prebuilt is set, `sam build` copies from that
// folder what it would build, and `sam deploy` has its package.
func newAccount(t testing.TB, prebuilt string) *account {
	t.Helper()
	if testing.Short() {
		t.Skip("starts everything that a deployment has")
	}
	a := &account{t: t, prebuilt: prebuilt, dir: t.TempDir(), requests: make(chan request), secrets: map[string]string{}}
	a.consul = consultest.Start(t)
	user := caller{aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, "arn:aws:sts::123456789012:assumed-role/network-operator/test"}
	a.url = newFunctionURL(t, user)
	moto := testtools.StartMoto(t)
	a.moto = proxyTo(t, moto)
	a.env = map[string]string{
		"HOME": a.dir, "AWS_REGION": ecstest.Region, "AWS_DEFAULT_REGION": ecstest.Region, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_CONFIG_FILE": "none", "AWS_SHARED_CREDENTIALS_FILE": "none", "AWS_EC2_METADATA_DISABLED": "true", "SAM_CLI_TELEMETRY": "0",
		"AWS_ENDPOINT_URL": moto, "TF_CLI_CONFIG_FILE": testtools.TerraformRC(t), "GOFLAGS": os.Getenv("GOFLAGS"),
		"PATH": strings.Join([]string{filepath.Join(a.dir, "path"), filepath.Dir(testtools.AWS(t)), os.Getenv("PATH")}, ":"),
	}
	for _, name := range []string{"GOPATH", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOFLAGS"} { // sam build compiles
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		a.env[name] = strings.TrimSpace(string(out))
	}
	maps.Copy(a.env, a.url.env)
	for service, serve := range map[string]http.HandlerFunc{
		"CLOUDFORMATION": a.cloudFormation, "SECRETS_MANAGER": a.secretsManager, "S3": a.s3, "DYNAMODB": a.dynamoDB,
		"CLOUDWATCH_LOGS": a.logs, "ECS": a.ecs, "LAMBDA": a.pass("LAMBDA"), "EVENTBRIDGE": a.pass("EVENTBRIDGE"),
	} {
		server := httptest.NewServer(serve)
		t.Cleanup(server.Close)
		a.env["AWS_ENDPOINT_URL_"+service] = server.URL
	}
	a.standIns()
	return a
}

// standIns writes programs that run instead of others: sam deploy and delete, make build, and git
// clone, which copies this checkout.
func (a *account) standIns() {
	a.t.Helper()
	server := httptest.NewServer(http.HandlerFunc(a.sam))
	a.t.Cleanup(server.Close)
	build := "exec " + testtools.SAM(a.t) + ` "$@"`
	if a.prebuilt != "" {
		// With the times of the files, for which there is a package.
		build = "mkdir -p .aws-sam && cp -rp " + a.prebuilt + " .aws-sam/build && exec cp -rp " + a.prebuilt + "-packaged .aws-sam/build-packaged"
	}
	makePath, err := exec.LookPath("make")
	if err != nil {
		a.t.Fatal(err)
	}
	gitPath, err := exec.LookPath("git")
	if err != nil {
		a.t.Fatal(err)
	}
	for name, script := range map[string]string{
		"sam":  fmt.Sprintf("case $1 in deploy | delete) printf '%%s\\n' \"$PWD\" \"$@\" | curl --silent --show-error --fail-with-body --data-binary @- %s; exit;; esac\n%s", server.URL, build),
		"make": fmt.Sprintf("if [ \"$*\" = build ]; then mkdir -p bin && exec cp %s bin/; fi\nexec %s \"$@\"", built(a.t, "terrapulse"), makePath),
		"git":  fmt.Sprintf("if [ \"$1\" = clone ]; then exec cp -r %s \"$(basename \"$2\" .git)\"; fi\nexec %s \"$@\"", filepath.Join(a.dir, "checkout"), gitPath),
	} {
		path := filepath.Join(a.dir, "path", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			a.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			a.t.Fatal(err)
		}
	}
	copied := exec.CommandContext(a.t.Context(), "sh", "-c", "git ls-files -z | xargs -0 cp --parents -t \"$0\"", filepath.Join(a.dir, "checkout"))
	copied.Dir = testtools.Root(a.t)
	if err := os.Mkdir(filepath.Join(a.dir, "checkout"), 0o755); err != nil {
		a.t.Fatal(err)
	}
	if out, err := copied.CombinedOutput(); err != nil {
		a.t.Fatalf("copy the checkout: %v\n%s", err, out)
	}
}

// run runs a script in a folder of the account, and returns what it prints.
func (a *account) run(script, folder string, variables ...string) (string, error) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 5*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = folder
	for name, value := range a.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, variables...)
	var out testtools.Output
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case r := <-a.requests:
			r.answer <- a.answer(r)
		case err := <-ended:
			return out.String(), err
		}
	}
}

// sam hands a call of the stand-in to the test.
func (a *account) sam(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	lines := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
	call := request{folder: lines[0], arguments: lines[1:], answer: make(chan error, 1)}
	a.requests <- call
	select {
	case <-a.t.Context().Done(): // it has failed
	case err := <-call.answer:
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, "sam %s: done\n", call.arguments[0])
	}
}

// answer deploys or deletes.
func (a *account) answer(r request) error {
	var name string
	parameters := rehearsal.Parameters{}
	for i := 1; i < len(r.arguments); i++ {
		switch flag := r.arguments[i]; flag {
		case "--stack-name":
			i++
			name = r.arguments[i]
		case "--parameter-overrides":
			for i+1 < len(r.arguments) && !strings.HasPrefix(r.arguments[i+1], "--") {
				i++
				key, value, _ := strings.Cut(r.arguments[i], "=")
				parameters[key] = value
			}
		case "--no-confirm-changeset", "--no-prompts":
		default:
			return fmt.Errorf("sam %s: no such option: %s", r.arguments[0], flag)
		}
	}
	if name == "" {
		return fmt.Errorf("sam %s: missing option --stack-name", r.arguments[0])
	}
	if r.arguments[0] == "delete" {
		return a.remove(name)
	}
	// Without it, `sam deploy` requires capabilities and a bucket.
	if config, err := os.ReadFile(filepath.Join(r.folder, "samconfig.toml")); err != nil || !bytes.Contains(config, []byte("CAPABILITY_IAM")) {
		return fmt.Errorf("sam deploy: requires capabilities: %w", err)
	}
	build := filepath.Join(r.folder, ".aws-sam", "build")
	if a.deployment() != nil { // what a deployment changes in the services is tested elsewhere
		rehearsal.Built(build).Deploy(a.t, name, parameters)
		return nil
	}
	c := deploy(a.t, options{name: name, build: build, parameters: parameters, secrets: a.secrets, server: a.consul})
	a.url.serve(c)
	a.mu.Lock()
	a.cloud = c
	a.mu.Unlock()
	go a.schedule(c)
	return nil
}

// schedule ticks, faster than EventBridge Scheduler, until the deployment is deleted.
func (a *account) schedule(c *cloud) {
	for a.deployment() == c && a.t.Context().Err() == nil {
		c.lambda.invoke(a.t.Context(), c.reconcile, []byte(`{"mode":"reconcile","window":true}`))
		time.Sleep(500 * time.Millisecond)
	}
}

// remove deletes a stack. What the template retains stays.
func (a *account) remove(name string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cloud == nil || a.cloud.name != name {
		return fmt.Errorf("stack %s does not exist", name)
	}
	a.was, a.cloud = a.cloud, nil
	return nil
}

// register registers an instance of the service web.
func (a *account) register(id string, port int) { a.t.Helper(); register(a.t, a.consul, id, port) }

func (a *account) deployment() *cloud {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cloud
}

// data returns the deployment whose table and bucket exist.
func (a *account) data() *cloud {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cloud == nil {
		return a.was
	}
	return a.cloud
}

// pass returns what passes requests to a service of the deployment.
func (a *account) pass(service string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := a.data()
		if c == nil {
			a.moto.ServeHTTP(w, r)
			return
		}
		proxyTo(a.t, c.env["AWS_ENDPOINT_URL_"+service]).ServeHTTP(w, r)
	}
}

// ecs writes the file stopped when a container has ended that somebody stopped.
func (a *account) ecs(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // an error comes again where the rest is read
	r.Body = io.NopCloser(bytes.NewReader(body))
	a.pass("ECS")(w, r)
	var in struct{ Task string }
	c := a.data()
	if c == nil || !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".StopTask") || json.Unmarshal(body, &in) != nil {
		return
	}
	go func() {
		for a.t.Context().Err() == nil {
			if c.ecs.LastStatus(in.Task) == "STOPPED" {
				os.WriteFile(a.stopped(), nil, 0o600)
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
}

func (a *account) stopped() string { return filepath.Join(a.dir, "stopped") }

// cloudFormation has the stack of the deployment, and moto all others.
func (a *account) cloudFormation(w http.ResponseWriter, r *http.Request) {
	form := formOf(r)
	c := a.deployment()
	if c == nil || form.Get("StackName") != c.name {
		a.moto.ServeHTTP(w, r)
		return
	}
	proxyTo(a.t, c.env["AWS_ENDPOINT_URL_CLOUDFORMATION"]).ServeHTTP(w, r)
}

// formOf returns the form of a request, which can be read again.
func formOf(r *http.Request) url.Values {
	body, _ := io.ReadAll(r.Body) // an error comes again where the rest is read
	r.Body = io.NopCloser(bytes.NewReader(body))
	form, _ := url.ParseQuery(string(body))
	return form
}

// secretsManager creates secrets, which the deployment can read.
func (a *account) secretsManager(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".CreateSecret") {
		a.moto.ServeHTTP(w, r)
		return
	}
	var in struct{ Name, SecretString string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	arn := "arn:aws:secretsmanager:" + ecstest.Region + ":123456789012:secret:" + in.Name + "-AbCdEf"
	a.mu.Lock()
	a.secrets[arn] = in.SecretString
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	json.NewEncoder(w).Encode(map[string]string{"ARN": arn, "Name": in.Name})
}

// s3 has the bucket of the deployment, and moto all others.
func (a *account) s3(w http.ResponseWriter, r *http.Request) {
	c := a.data()
	bucket, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if c == nil || bucket != c.bucket {
		a.moto.ServeHTTP(w, r)
		return
	}
	a.pass("S3")(w, r)
	if deployed := a.deployment(); deployed != nil && r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/terrapulse/current") {
		go deployed.lambda.invoke(a.t.Context(), deployed.reconcile, []byte(deployed.pushedEvent()))
	}
}

// dynamoDB is DynamoDB Local, which cannot restore tables.
func (a *account) dynamoDB(w http.ResponseWriter, r *http.Request) {
	c := a.data()
	if c == nil || !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".RestoreTableToPointInTime") {
		a.pass("DYNAMODB")(w, r)
		return
	}
	var in struct{ SourceTableName, TargetTableName string }
	err := json.NewDecoder(r.Body).Decode(&in)
	client := dynamodb.NewFromConfig(dynamotest.Config(c.env["AWS_ENDPOINT_URL_DYNAMODB"]))
	if err == nil {
		_, err = client.CreateTable(r.Context(), dynamo.Table(in.TargetTableName))
	}
	var items *dynamodb.ScanOutput
	if err == nil {
		items, err = client.Scan(r.Context(), &dynamodb.ScanInput{TableName: &in.SourceTableName})
	}
	for i := 0; err == nil && i < len(items.Items); i++ {
		_, err = client.PutItem(r.Context(), &dynamodb.PutItemInput{TableName: &in.TargetTableName, Item: items.Items[i]})
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	json.NewEncoder(w).Encode(map[string]any{"TableDescription": map[string]any{"TableName": in.TargetTableName, "TableStatus": "CREATING"}})
}

// logs answers FilterLogEvents with all lines of a function, or of the containers. A log group stays
// when its stack is deleted.
func (a *account) logs(w http.ResponseWriter, r *http.Request) {
	var in struct{ LogGroupName, LogGroupNamePrefix string }
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	switch operation {
	case "DescribeLogGroups":
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"logGroups": []any{map[string]string{"logGroupName": in.LogGroupNamePrefix + "reconcile"}}})
		return
	case "DeleteLogGroup":
		fmt.Fprint(w, "{}")
		return
	}
	c := a.deployment()
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || c == nil {
		http.Error(w, "there is no such log group", http.StatusBadRequest)
		return
	}
	text := c.output.String()
	if function := map[string]string{"reconcile": c.reconcile, "settle": c.settle, "api": c.api}[filepath.Base(in.LogGroupName)]; function != "" {
		text = c.lambda.logs(function)
	}
	var events []map[string]any
	for line := range strings.Lines(text) {
		events = append(events, map[string]any{"message": line, "timestamp": 1})
	}
	json.NewEncoder(w).Encode(map[string]any{"events": events})
}

// clone returns a copy of the checkout, as `git clone` makes it.
func (a *account) clone(name string) string {
	a.t.Helper()
	to := filepath.Join(a.dir, name)
	if out, err := exec.CommandContext(a.t.Context(), "cp", "-r", filepath.Join(a.dir, "checkout"), to).CombinedOutput(); err != nil {
		a.t.Fatalf("%v\n%s", err, out)
	}
	return to
}

func proxyTo(t testing.TB, address string) *httputil.ReverseProxy {
	to, err := url.Parse(address)
	if err != nil {
		t.Error(err)
	}
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host }}
}
