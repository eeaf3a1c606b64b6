package infra_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// programs are those of the functions and of the container, with their roles.
var programs = map[string]string{"install": "InstallRole", "reconcile": "ReconcileRole", "settle": "SettleRole", "notification": "NotificationRole", "api": "ApiRole", "runner": "RunnerRole"}

// Each role allows every action that its program calls, and no other. The calls are read from the
// program's code.
func TestRoles_AllowExactlyWhatTheirProgramsCall(t *testing.T) {
	parameters := everything()
	// Policies that a user adds, and Lambda's rights to enter a VPC, are not checked.
	delete(parameters, "RunnerPolicyArns")
	delete(parameters, "PlanPolicyArns")
	delete(parameters, "FunctionSubnets")
	delete(parameters, "FunctionSecurityGroups")
	parameters["FunctionsInVpc"] = "none"
	stack := deployed(t, "rights", parameters)
	for program, role := range programs {
		t.Run(program, func(t *testing.T) {
			called := calls(t, "./functions/"+program)
			if len(called) == 0 {
				t.Fatal("calls nothing: this test looks in the wrong place")
			}
			var allowed []string
			for _, s := range stack.Roles[role] {
				allowed = append(allowed, s.Actions...)
			}
			for action, by := range called {
				if isAction(action) && !slices.Contains(allowed, action) && given[role][action] == "" {
					t.Errorf("%s needs %s for %s, which %s does not allow", program, action, by, role)
				}
			}
			for _, action := range allowed {
				if called[action] == "" && implied[role][action] == "" {
					t.Errorf("%s allows %s, which nobody needs", role, action)
				}
			}
			for action := range implied[role] {
				if !slices.Contains(allowed, action) {
					t.Errorf("%s does not allow %s, which is said to be implied", role, action)
				}
			}
		})
	}
}

// Each role reaches the collections of records that its program uses, and no other. functions/e2e tests
// each request.
func TestRoles_ReachExactlyTheCollectionsOfTheirPrograms(t *testing.T) {
	stack := bounds(t)
	for program, role := range programs {
		t.Run(program, func(t *testing.T) {
			used, reached := map[string]string{}, map[string]bool{}
			for collection, by := range calls(t, "./functions/"+program) {
				if !isAction(collection) && !slices.Contains(noCollections, collection) {
					used[collection] = by
				}
			}
			for _, s := range stack.Roles[role] {
				patterns, limited := s.LeadingKeys()
				if !limited && slices.ContainsFunc(s.Actions, func(action string) bool { return strings.HasSuffix(action, "Item") || action == "dynamodb:Query" }) {
					t.Errorf("%s reaches all records: %s", role, s)
				}
				for _, p := range patterns {
					reached[p] = true
				}
			}
			for collection, by := range used {
				if reached[collection] == (unused[role][collection] != "") {
					t.Errorf("%s uses %s in %s; %s reaches it: %v; it is said to be unused: %q", program, collection, by, role, reached[collection], unused[role][collection])
				}
			}
			for collection := range reached {
				if used[collection] == "" {
					t.Errorf("%s reaches %s, which %s does not use", role, collection, program)
				}
			}
		})
	}
}

// A plan has no policy of those that apply. The policy of AWS has an ARN of the stack's partition.
func TestPlanRole_HasPoliciesOfItsOwn(t *testing.T) {
	const want = "[HasPlanPolicies PlanPolicyArns [HasRunnerPolicies [arn:${AWS::Partition}:iam::aws:policy/ReadOnlyAccess] AWS::NoValue]]"
	if policies := fmt.Sprint(written(t).Resources["PlanRole"].Properties["ManagedPolicyArns"]); policies != want {
		t.Errorf("its policies are %s", policies)
	}
}

// ECS may pull the image of the containers, and no other. An image that is not in a private registry of ECR needs
// no rights.
func TestExecutionRole_PullsNothingButTheImage(t *testing.T) {
	slow(t)
	for image, want := range map[string]string{
		"":                                    "",
		"docker.io/team/terrapulse:1.2":       "",
		"public.ecr.aws/team/terrapulse:1.2":  "",
		"registry.example.com:5000/dkr/a.b:1": "",
		"123456789012.dkr.ecr.eu-west-1.amazonaws.com/terrapulse":                            "arn:aws:ecr:eu-west-1:123456789012:repository/terrapulse",
		"999999999999.dkr.ecr.us-east-1.amazonaws.com/team/a/terrapulse:1.2.amazonaws":       "arn:aws:ecr:us-east-1:999999999999:repository/team/a/terrapulse",
		"123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/team/terrapulse@sha256:0123456789": "arn:aws:ecr:cn-north-1:123456789012:repository/team/terrapulse",
		"123456789012.dkr-ecr.eu-west-1.on.aws/team/terrapulse:1":                            "arn:aws:ecr:eu-west-1:123456789012:repository/team/terrapulse",
	} {
		for _, parameter := range []string{"RunnerImage", "TerraformImage"} {
			if parameter == "TerraformImage" && image == "" {
				continue // it has a default, which is public
			}
			parameters := rehearsal.Minimal("consul.example.com:8501")
			parameters[parameter] = image
			var resources []string
			enters := false
			for _, s := range deployed(t, "image", parameters).Roles["ExecutionRole"] {
				if slices.Contains(s.Actions, "ecr:BatchGetImage") {
					resources = append(resources, s.Resources...)
				}
				enters = enters || slices.Contains(s.Actions, "ecr:GetAuthorizationToken")
			}
			if strings.Join(resources, " ") != want || enters != (want != "") {
				t.Errorf("%s=%s: it pulls from %q, not %q; it enters registries: %v", parameter, image, resources, want, enters)
			}
		}
	}
}

// A deployment with the backend of docs/deploy.md needs no rights besides those of the template. Plans lock the
// state, and do not write it.
func TestRoles_ReachTheStateOfTheDocumentedBackend(t *testing.T) {
	stack := bounds(t)
	_, backend, _ := strings.Cut(read(t, "docs/deploy.md"), "\n      s3:\n")
	backend, _, _ = strings.Cut(backend, "```")
	var s3 map[string]any
	backend = strings.ReplaceAll(backend, "terrapulse/", "some-prefix/") // the default, and the stack's
	if err := yaml.Unmarshal([]byte(backend), &s3); err != nil {
		t.Fatal(err)
	}
	for _, object := range []string{
		fmt.Sprint(s3["key"]), // Terraform looks at the default workspace first
		fmt.Sprintf("%s/web/%s", s3["workspace_key_prefix"], s3["key"]), fmt.Sprintf("%s/web/%s.tflock", s3["workspace_key_prefix"], s3["key"]),
	} {
		for _, action := range []string{"s3:GetObject", "s3:PutObject", "s3:DeleteObject"} {
			request := ask(action, "arn:aws:s3:::the-bucket/"+object)
			if !stack.Roles["RunnerRole"].Allows(t, request) {
				t.Errorf("RunnerRole does not allow %s", request)
			}
			plans := action == "s3:GetObject" || strings.HasSuffix(object, ".tflock")
			if allowed := stack.Roles["PlanRole"].Allows(t, request); allowed != plans {
				t.Errorf("PlanRole allows %s: %v", request, allowed)
			}
		}
	}
	for _, s := range slices.Concat(stack.Roles["RunnerRole"], stack.Roles["PlanRole"]) {
		if !slices.Contains(s.Actions, "s3:ListBucket") {
			continue
		}
		like, _ := s.Condition["StringLikeIfExists"].(map[string]any)
		prefix, _ := like["s3:prefix"].(string)
		if !strings.HasPrefix(fmt.Sprint(s3["workspace_key_prefix"])+"/", strings.TrimSuffix(prefix, "*")) || !strings.HasSuffix(prefix, "/*") {
			t.Errorf("a role lists names below %q, and the workspaces lie below %s", prefix, s3["workspace_key_prefix"])
		}
	}
}

// Without NAT, each called service needs an endpoint, and docs/deploy.md must list it.
func TestNetwork_EveryServiceThatIsCalledHasAnEndpoint(t *testing.T) {
	slow(t)
	needed := map[string]string{
		"ecr.api": "ECS, which pulls the image", "ecr.dkr": "ECS, which pulls the image", "logs": "ECS, which writes the containers' log",
		"sts": "Terraform's S3 backend", "ec2": "functions/install",
	}
	for _, program := range []string{"install", "reconcile", "settle", "notification", "api", "runner"} {
		for action, by := range calls(t, "./functions/"+program) {
			service, _, _ := strings.Cut(action, ":")
			if isAction(action) && service != "iam" { // a right for RunTask, and no request
				needed[service] = by
			}
		}
	}
	endpoints := map[string]bool{}
	for _, m := range regexp.MustCompile(`ServiceName: !Sub com\.amazonaws\.\$\{AWS::Region\}\.(\S+)`).FindAllStringSubmatch(read(t, "infra/network.yaml"), -1) {
		endpoints[m[1]] = true
		if needed[m[1]] == "" {
			t.Errorf("infra/network.yaml makes an endpoint for %s, which nobody calls", m[1])
		}
	}
	guide := read(t, "docs/deploy.md")
	for service, by := range needed {
		if !endpoints[service] {
			t.Errorf("infra/network.yaml makes no endpoint for %s, which %s calls", service, by)
		}
		if !strings.Contains(guide, "`"+service+"`") {
			t.Errorf("docs/deploy.md does not list the endpoint %s", service)
		}
	}
}

// actions are the IAM actions of an operation, if its name is not the action.
var actions = map[string][]string{
	// Tasks are started with tags and with two roles.
	"ecs:RunTask":   {"ecs:RunTask", "ecs:TagResource", "iam:PassRole"},
	"lambda:Invoke": {"lambda:InvokeFunction"},
	// Without s3:ListBucket, a missing object is reported as forbidden.
	"s3:GetObject":          {"s3:GetObject", "s3:ListBucket"},
	"s3:HeadObject":         {"s3:GetObject", "s3:ListBucket"},
	"s3:ListObjectVersions": {"s3:ListBucketVersions"},
	"s3:DeleteObjects":      {"s3:DeleteObject"},
	// A transaction needs the actions of its parts; see parts.
	"dynamodb:TransactWriteItems": nil,
}

// parts are the types of the parts of a DynamoDB transaction.
var parts = map[string]string{
	"Put": "dynamodb:PutItem", "Delete": "dynamodb:DeleteItem", "Update": "dynamodb:UpdateItem", "ConditionCheck": "dynamodb:ConditionCheckItem",
}

const (
	module   = "github.com/terrapulse/terrapulse"
	services = "github.com/aws/aws-sdk-go-v2/service/"
)

// known are the results of calls, which takes seconds of a processor for each program.
var known = map[string]map[string]string{}

// calls returns the AWS actions that a program may call and the collections of records that it may use, each
// with a function that does. It
// follows all references from main: a function reaches the functions that it names and, for methods
// of an interface, the same methods of all types that implement it.
func calls(t *testing.T, program string) map[string]string {
	t.Helper()
	if known[program] != nil {
		return known[program]
	}
	code := load(t, program)
	found := map[string]string{}
	seen := map[*types.Func]bool{}
	var reach func(f *types.Func)
	visit := func(in string, r references) {
		for _, action := range slices.Concat(r.actions, r.collections) {
			found[action] = in
		}
		for _, f := range r.functions {
			reach(f)
		}
		for _, m := range r.methods {
			for _, f := range code.implementations(m) {
				reach(f)
			}
		}
	}
	reach = func(f *types.Func) {
		if f = f.Origin(); seen[f] {
			return
		}
		seen[f] = true
		visit(f.FullName(), code.bodies[f])
	}
	for _, f := range code.roots {
		reach(f)
	}
	visit("variables", code.variables)
	known[program] = found
	return found
}

// code is the program's own packages.
type code struct {
	roots     []*types.Func // main, and the functions that run before it
	variables references    // from the values of package variables
	bodies    map[*types.Func]references
	named     []types.Type // the types of the module
}

// references are the names that a function uses.
type references struct {
	functions   []*types.Func
	methods     []*types.Func // of interfaces
	actions     []string
	collections []string // of records
}

// implementations returns the methods of the module's types that implement a method of an
// interface.
func (c *code) implementations(method *types.Func) []*types.Func {
	iface, ok := method.Signature().Recv().Type().Underlying().(*types.Interface)
	if !ok {
		return nil
	}
	var all []*types.Func
	for _, typ := range c.named {
		pointer := types.NewPointer(typ)
		if !types.Implements(pointer, iface) {
			continue
		}
		if s := types.NewMethodSet(pointer).Lookup(method.Pkg(), method.Name()); s != nil {
			if f, ok := s.Obj().(*types.Func); ok {
				all = append(all, f)
			}
		}
	}
	return all
}

// load reads the packages of the module in a program. Other packages are known by the compiler's
// export data.
func load(t *testing.T, program string) *code {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-export", "-trimpath", "-tags", "lambda.norpc", "-json=ImportPath,Dir,Export,GoFiles,ImportMap", program)
	cmd.Dir = testtools.Root(t)
	cmd.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	type pkg struct {
		ImportPath, Dir, Export string
		GoFiles                 []string
		ImportMap               map[string]string
	}
	exports, vendored := map[string]string{}, map[string]string{}
	var own []pkg // dependencies come first
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		maps.Copy(vendored, p.ImportMap)
		if strings.HasPrefix(p.ImportPath, module) {
			own = append(own, p)
		}
	}
	fset := token.NewFileSet()
	loaded := map[string]*types.Package{}
	others := importer.ForCompiler(fset, "gc", func(name string) (io.ReadCloser, error) {
		if to := vendored[name]; to != "" {
			name = to
		}
		if exports[name] == "" {
			return nil, fmt.Errorf("the compiler says nothing of %s", name)
		}
		return os.Open(exports[name])
	})
	c := &code{bodies: map[*types.Func]references{}}
	for _, p := range own {
		var files []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
		cfg := types.Config{Importer: importerFunc(func(name string) (*types.Package, error) {
			if p := loaded[name]; p != nil {
				return p, nil
			}
			return others.Import(name)
		})}
		checked, err := cfg.Check(p.ImportPath, fset, files, info)
		if err != nil {
			t.Fatal(err)
		}
		loaded[p.ImportPath] = checked
		c.add(p.ImportPath, files, info)
	}
	return c
}

type importerFunc func(name string) (*types.Package, error)

func (f importerFunc) Import(name string) (*types.Package, error) { return f(name) }

// add collects the references of each function of a package.
func (c *code) add(in string, files []*ast.File, info *types.Info) {
	for _, obj := range info.Defs {
		if name, ok := obj.(*types.TypeName); ok && !name.IsAlias() {
			if _, generic := name.Type().(*types.TypeParam); !generic {
				c.named = append(c.named, name.Type())
			}
		}
	}
	for _, file := range files {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				if g := decl.(*ast.GenDecl); g.Tok == token.VAR {
					c.variables.add(decl, in, info)
				}
				continue
			}
			var r references
			r.add(f, in, info)
			obj := info.Defs[f.Name].(*types.Func)
			c.bodies[obj] = r
			if f.Recv == nil && (f.Name.Name == "init" || f.Name.Name == "main" && obj.Pkg().Name() == "main") {
				c.roots = append(c.roots, obj)
			}
		}
	}
}

func (r *references) add(node ast.Node, in string, info *types.Info) {
	ast.Inspect(node, func(n ast.Node) bool {
		if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING && strings.HasPrefix(in, module+"/internal/record/") {
			r.collections = append(r.collections, collection(info.Types[text].Value)...)
		}
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		switch obj := info.Uses[id].(type) {
		case *types.Func:
			r.actions = append(r.actions, operation(obj)...)
			if recv := obj.Signature().Recv(); recv != nil && types.IsInterface(recv.Type()) {
				r.methods = append(r.methods, obj)
			} else {
				r.functions = append(r.functions, obj)
			}
		case *types.Const:
			if pkg := obj.Pkg(); pkg != nil && strings.HasPrefix(pkg.Path(), module+"/internal/record/") && obj.Val().Kind() == constant.String {
				r.collections = append(r.collections, collection(obj.Val())...)
			}
			// An operation without a client of the SDK:
			if named, ok := obj.Type().(*types.Named); ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == module+"/internal/base/awsjson" {
				r.actions = append(r.actions, needed(constant.StringVal(obj.Val()))...)
			}
		case *types.TypeName:
			if pkg := obj.Pkg(); pkg != nil && pkg.Path() == services+"dynamodb/types" && parts[obj.Name()] != "" {
				r.actions = append(r.actions, parts[obj.Name()])
			}
		}
		return true
	})
}

// keys are texts that begin keys of records.
var keys = regexp.MustCompile(`^([a-z-]+)/|^audit-`)

// collection returns the collection of a text that begins keys of records.
func collection(text constant.Value) []string {
	if text == nil { // the tag of a field
		return nil
	}
	m := keys.FindStringSubmatch(constant.StringVal(text))
	if m == nil {
		return nil
	}
	return []string{cmp.Or(m[1], "audit-*")}
}

func isAction(name string) bool { return strings.Contains(name, ":") }

// operation returns the actions of a call of f, if f takes the input of an AWS operation: as a
// client's method, a paginator, or a method of an interface that a client implements.
func operation(f *types.Func) []string {
	if f.Pkg() != nil && strings.HasPrefix(f.Pkg().Path(), module) && f.Signature().Recv() == nil {
		return nil // it calls itself
	}
	for v := range f.Signature().Params().Variables() {
		pointer, ok := v.Type().(*types.Pointer)
		if !ok {
			continue
		}
		named, ok := pointer.Elem().(*types.Named)
		if !ok || named.Obj().Pkg() == nil {
			continue
		}
		service, isService := strings.CutPrefix(named.Obj().Pkg().Path(), services)
		name, isInput := strings.CutSuffix(named.Obj().Name(), "Input")
		if !isService || !isInput {
			continue
		}
		return needed(path.Base(service) + ":" + name)
	}
	return nil
}

// needed returns the actions that an operation needs.
func needed(operation string) []string {
	if needs, ok := actions[operation]; ok {
		return needs
	}
	return []string{operation}
}
