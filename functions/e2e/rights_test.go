//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// as returns the environment of a program that has a role: IAM judges its requests to AWS by the policies of the role.
// A refused request fails the test.
func (c *cloud) as(role string) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	env := maps.Clone(c.env)
	for service := range rights {
		address, guard := "AWS_ENDPOINT_URL_"+service, role+" "+service
		if c.guards[guard] == "" {
			c.guards[guard] = guarded(c.t, service, c.names, c.env[address], c.judge(role, c.roles[role], organisation(c.t, c.name)))
		}
		env[address] = c.guards[guard]
	}
	return env
}

// judge returns a function that reports whether a role has the right for a request, also under limits. A refused request
// fails the test.
func (c *cloud) judge(role string, policy rehearsal.Policy, limits rehearsal.Limits) func(rehearsal.Request) bool {
	var judged sync.Map // verdicts by request
	return func(r rehearsal.Request) bool {
		verdict, known := judged.Load(r.String())
		if !known {
			r.Principal = "arn:aws:iam::123456789012:role/" + c.name + "-" + role + "-1"
			said := ""
			if !policy.Allows(c.t, r) {
				said = role + " does not allow"
			} else if !policy.Judge(c.t, limits, r)[0] {
				said = "a strict organisation denies " + role
			}
			verdict, _ = judged.LoadOrStore(r.String(), said)
		}
		if verdict != "" {
			c.t.Errorf("%s %s", verdict, r)
		}
		return verdict == ""
	}
}

// organisation returns the boundary and the policies of a strict organisation that has exempted a stack as the
// documentation says.
func organisation(t testing.TB, stack string) (limits rehearsal.Limits) {
	t.Helper()
	policy := func(name string) json.RawMessage {
		text, err := os.ReadFile(filepath.Join(testtools.Root(t), "infra", "organisation", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		return json.RawMessage(strings.NewReplacer("ACCOUNT", "123456789012", "STACK", stack).Replace(string(text)))
	}
	limits.Boundary = policy("boundary")
	for _, name := range []string{"boundaries", "encryption-in-transit", "function-urls", "linked-roles", "regions", "tags-exempt"} {
		limits.Controls = append(limits.Controls, policy(name))
	}
	return limits
}

// guarded returns the URL of a proxy that answers as AWS does if the sender lacks the right for a request. It replaces the
// names in requests by those in the policies.
func guarded(t testing.TB, service string, names *strings.Replacer, target string, allows func(rehearsal.Request) bool) string {
	t.Helper()
	proxy := proxyTo(t, target)
	proxy.Transport = &http.Transport{MaxIdleConnsPerHost: 100}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the program has gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		wants, err := rights[service](operation, r, []byte(names.Replace(string(body))))
		if err != nil {
			t.Errorf("%s: %s %s %s: %v", service, r.Method, r.URL, operation, err)
		}
		for _, want := range wants {
			if allows(want) {
				continue
			}
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(http.StatusBadRequest)
			json.NewEncoder(w).Encode(map[string]string{"__type": "com.amazon.coral.service#AccessDeniedException",
				"Message": fmt.Sprintf("User: arn:aws:sts::123456789012:assumed-role/role/session is not authorized to perform: %s because no identity-based policy allows the %s action", want.Action, want.Action)})
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// rights returns what IAM judges of a request, by the service.
var rights = map[string]func(operation string, r *http.Request, body []byte) ([]rehearsal.Request, error){
	"DYNAMODB": ofRecords, "S3": ofObjects, "LAMBDA": ofFunctions, "ECS": ofTasks, "SECRETS_MANAGER": ofSecrets, "EVENTBRIDGE": ofEvents, "CLOUDFORMATION": ofStacks,
}

// arn returns the ARN of what a service calls this, in the account of the stack.
func arn(service, name string) string {
	return "arn:aws:" + service + ":" + ecstest.Region + ":123456789012:" + name
}

// recordKey is a key or an item of a request, as far as the policies depend on it.
type recordKey struct {
	PK struct{ S string } `json:"pk"`
}

// ofRecords: IAM judges each part of a transaction like a request of its own.
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis-iam.html
func ofRecords(operation string, _ *http.Request, body []byte) ([]rehearsal.Request, error) {
	type part struct {
		TableName, ConditionExpression string
		Key, Item                      recordKey
	}
	var in struct {
		part
		ExpressionAttributeValues map[string]struct{ S string }
		RequestItems              map[string]struct{ Keys []recordKey }
		TransactItems             []map[string]part
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	collections := map[[2]string][]string{} // by action and table
	add := func(action, table string, collection string) {
		at := [2]string{"dynamodb:" + action, table}
		collections[at] = append(collections[at], collection)
	}
	puts := []part{in.part}
	for _, item := range in.TransactItems {
		puts = append(puts, item["Put"])
	}
	for _, put := range puts { // IAM cannot distinguish a new entry from a replaced one
		if strings.HasPrefix(put.Item.PK.S, "audit-") && put.ConditionExpression != "attribute_not_exists(pk)" {
			return nil, fmt.Errorf("it may replace an entry of the audit record: %s", body)
		}
	}
	switch operation {
	case "GetItem", "DeleteItem", "PutItem":
		add(operation, in.TableName, in.Key.PK.S+in.Item.PK.S)
	case "Query":
		add(operation, in.TableName, in.ExpressionAttributeValues[":pk"].S)
	case "BatchGetItem":
		for table, of := range in.RequestItems {
			for _, key := range of.Keys {
				add(operation, table, key.PK.S)
			}
		}
	case "TransactWriteItems":
		for _, item := range in.TransactItems {
			for kind, of := range item {
				add(kind+"Item", of.TableName, of.Key.PK.S+of.Item.PK.S)
			}
		}
	default:
		return []rehearsal.Request{{Action: "dynamodb:" + operation, Resource: arn("dynamodb", "table/"+in.TableName)}}, nil
	}
	var requests []rehearsal.Request
	for at, keys := range collections {
		for _, key := range keys {
			if key == "" {
				return nil, fmt.Errorf("it names no collection: %s", body)
			}
		}
		requests = append(requests, rehearsal.Records(at[0], arn("dynamodb", "table/"+at[1]), keys...))
	}
	return requests, nil
}

func ofObjects(_ string, r *http.Request, _ []byte) ([]rehearsal.Request, error) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	request := rehearsal.Request{Resource: "arn:aws:s3:::" + bucket, Context: map[string]any{}}
	query := r.URL.Query()
	switch {
	case query.Has("notification"):
		request.Action = "s3:GetBucketNotification"
	case key == "":
		request.Action = map[bool]string{false: "s3:ListBucket", true: "s3:ListBucketVersions"}[query.Has("versions")]
		if query.Has("prefix") {
			request.Context["s3:prefix"] = query.Get("prefix")
		}
	default:
		request.Resource += "/" + key
		request.Action = map[string]string{http.MethodGet: "s3:GetObject", http.MethodHead: "s3:GetObject", http.MethodPut: "s3:PutObject", http.MethodDelete: "s3:DeleteObject"}[r.Method]
		if once := r.Header.Get("If-None-Match"); once != "" && r.Method == http.MethodPut {
			request.Context["s3:if-none-match"] = once
		}
	}
	return []rehearsal.Request{request}, nil
}

func ofFunctions(_ string, r *http.Request, _ []byte) ([]rehearsal.Request, error) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/2015-03-31/functions/"), "/")
	name, err := url.PathUnescape(name)
	return []rehearsal.Request{{Action: "lambda:InvokeFunction", Resource: arn("lambda", "function:"+name)}}, err
}

// ofTasks: who runs a task may also tag it, and pass it its role. infra tests that it may also pass the roles of the
// task definition.
func ofTasks(operation string, _ *http.Request, body []byte) ([]rehearsal.Request, error) {
	var in struct {
		Cluster, TaskDefinition string
		Tasks, Clusters         []string
		Tags                    []any
		Overrides               struct{ TaskRoleArn string }
	}
	err := json.Unmarshal(body, &in)
	in.Cluster = arn("ecs", "cluster/"+path.Base(in.Cluster))
	task := func(id string) string { return arn("ecs", "task/"+path.Base(in.Cluster)+"/"+path.Base(id)) }
	request := rehearsal.Request{Action: "ecs:" + operation, Resource: "*"}
	switch operation {
	case "RunTask":
		request.Resource, request.Context = in.TaskDefinition, map[string]any{"ecs:cluster": in.Cluster}
		requests := []rehearsal.Request{request}
		if len(in.Tags) > 0 {
			requests = append(requests, rehearsal.Request{Action: "ecs:TagResource", Resource: task("new"), Context: map[string]any{"ecs:CreateAction": "RunTask"}})
		}
		if passed := in.Overrides.TaskRoleArn; passed != "" {
			requests = append(requests, rehearsal.Request{Action: "iam:PassRole", Resource: passed, Context: map[string]any{"iam:PassedToService": "ecs-tasks.amazonaws.com"}})
		}
		return requests, err
	case "ListTasks":
		request.Context = map[string]any{"ecs:cluster": in.Cluster}
	case "DescribeTasks":
		var requests []rehearsal.Request
		for _, id := range in.Tasks {
			requests = append(requests, rehearsal.Request{Action: request.Action, Resource: task(id)})
		}
		return requests, err
	case "DescribeClusters":
		request.Resource = arn("ecs", "cluster/"+path.Base(in.Clusters[0]))
	}
	return []rehearsal.Request{request}, err
}

func ofSecrets(operation string, _ *http.Request, body []byte) ([]rehearsal.Request, error) {
	var in struct{ SecretId string }
	err := json.Unmarshal(body, &in)
	return []rehearsal.Request{{Action: "secretsmanager:" + operation, Resource: in.SecretId}}, err
}

func ofStacks(_ string, r *http.Request, _ []byte) ([]rehearsal.Request, error) {
	form := formOf(r)
	return []rehearsal.Request{{Action: "cloudformation:" + form.Get("Action"), Resource: arn("cloudformation", "stack/"+form.Get("StackName")+"/1")}}, nil
}

func ofEvents(operation string, _ *http.Request, body []byte) ([]rehearsal.Request, error) {
	var in struct {
		Name    string
		Entries []struct{ Source, EventBusName string }
	}
	err := json.Unmarshal(body, &in)
	if operation != "PutEvents" {
		return []rehearsal.Request{{Action: "events:" + operation, Resource: arn("events", "event-bus/"+path.Base(in.Name))}}, err
	}
	var requests []rehearsal.Request
	for _, e := range in.Entries {
		requests = append(requests, rehearsal.Request{Action: "events:PutEvents", Resource: arn("events", "event-bus/"+path.Base(e.EventBusName)), Context: map[string]any{"events:source": e.Source}})
	}
	return requests, err
}

// ofAPI returns what IAM judges of a request to the HTTP API.
func (c *cloud) ofAPI(r *http.Request) []rehearsal.Request {
	if c.gateway {
		id, _, _ := strings.Cut(r.Host, ".")
		return []rehearsal.Request{{Action: "execute-api:Invoke", Resource: arn("execute-api", id+"/terrapulse/"+r.Method+r.URL.Path)}}
	}
	function := arn("lambda", "function:"+c.api)
	return []rehearsal.Request{
		{Action: "lambda:InvokeFunctionUrl", Resource: function, Context: map[string]any{"lambda:FunctionUrlAuthType": "AWS_IAM"}},
		{Action: "lambda:InvokeFunction", Resource: function, Context: map[string]any{"lambda:InvokedViaFunctionUrl": "true"}},
	}
}
