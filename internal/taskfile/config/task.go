package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// maxTaskName is the longest name of a task, in bytes. The name becomes a
// directory (255 bytes in every common file system, some of which a temporary
// file's suffix needs) and a part of a Consul key (512 bytes), of which the
// path around it takes its share.
const maxTaskName = 200

func (l *loader) tasks(raw *rawConfig, cfg *Config) []Task {
	services := l.services(raw.Services)
	tasks := make([]Task, 0, len(raw.Tasks))
	others := l.takenBy(cfg, nil)
	for i := range raw.Tasks {
		r := &raw.Tasks[i]
		l.fill(r, "")
		t := l.task(r, cfg, services)
		others.refuse(r, &t)
		others.add(&t)
		tasks = append(tasks, t)
	}
	for i := range raw.Tasks {
		others.refuseMove(&raw.Tasks[i])
		others.move(raw.Tasks[i].Name.V, raw.Tasks[i].MovedFrom.V)
	}
	l.order(raw.Tasks, tasks)
	return tasks
}

// taken is what belongs to one task alone: its name, its working directory, which
// holds the root module that it applies, and a provider that commits.
type taken struct {
	*loader
	cfg        *Config
	names      map[string]*Task // by folded name
	dirs       map[string]string
	autoCommit map[string]string // by the provider's id
	moved      map[string]string // by the former name
}

// takenBy returns what the tasks have taken.
func (l *loader) takenBy(cfg *Config, tasks []Task) taken {
	all := taken{l, cfg, map[string]*Task{}, map[string]string{}, map[string]string{}, map[string]string{}}
	for i := range tasks {
		all.add(&tasks[i])
		all.move(tasks[i].Name, tasks[i].MovedFrom)
	}
	return all
}

// move adds the former names of a task, unless another task has them.
func (all taken) move(task string, from []string) {
	for _, name := range from {
		if _, ok := all.moved[name]; !ok {
			all.moved[name] = task
		}
	}
}

func (all taken) dir(t *Task) string { return filepath.Clean(all.abs(t.WorkingDir)) }

// add adds what a task has taken, unless another task has it.
func (all taken) add(t *Task) {
	if _, ok := all.names[folded(t.Name)]; !ok && t.Name != "" {
		all.names[folded(t.Name)] = t
	}
	if _, ok := all.dirs[all.dir(t)]; !ok {
		all.dirs[all.dir(t)] = t.Name
	}
	for _, id := range t.Providers {
		if p, ok := all.cfg.Provider(id); ok && p.AutoCommit {
			all.autoCommit[id] = t.Name
		}
	}
}

// refuse reports what another task has taken.
func (all taken) refuse(raw *rawTask, t *Task) {
	if first := all.names[folded(t.Name)]; first != nil {
		place := cmp.Or(first.Source.String(), "created through the API")
		if first.Name == t.Name {
			all.Fail(raw.Name.Origin, fmt.Sprintf("duplicate task name: %s (%s) exists already", block.Quoted(t.Name), place), "give each task a name of its own")
		} else {
			all.Fail(raw.Name.Origin, fmt.Sprintf("the task names %s and %s (%s) differ only in case: on macOS and Windows the two tasks would share a folder",
				block.Quoted(t.Name), block.Quoted(first.Name), place), "rename one of them")
		}
	} else if other, ok := all.dirs[all.dir(t)]; ok {
		at := raw.WorkingDir.Origin
		if raw.WorkingDir.V == "" {
			at = raw.Name.Origin
		}
		all.Fail(at, fmt.Sprintf("%s is the working directory of task %s already", block.Quoted(t.WorkingDir), block.Quoted(other)),
			"give each task a working_dir of its own")
	}
	for _, id := range t.Providers {
		if other, ok := all.autoCommit[id]; ok {
			all.Fail(raw.Providers.Origin, fmt.Sprintf("provider with autocommit (%s) cannot be used by more than one task, and task %s uses it", id, block.Quoted(other)),
				"configure another instance with an alias")
		}
	}
}

// refuseMove reports a moved_from that names a task which is still there, or one that
// is moved to another task as well.
func (all taken) refuseMove(raw *rawTask) {
	for i, from := range raw.MovedFrom.V {
		at := raw.MovedFrom.Element(i)
		if len(raw.MovedFrom.Parts) == 0 { // one name without brackets
			at = raw.MovedFrom.Origin
		}
		other, moved := all.moved[from]
		switch {
		case !identifier(from):
			all.Fail(at, fmt.Sprintf("moved_from is not the name of a task: %s", block.Quoted(from)), "the name that the task had before")
		case all.names[folded(from)] != nil:
			all.Fail(at, fmt.Sprintf("moved_from names the task %s, which is in the configuration", block.Quoted(from)), "remove moved_from, or the task of that name")
		case moved && other != raw.Name.V:
			all.Fail(at, fmt.Sprintf("the tasks %s and %s are both moved from %s", block.Quoted(other), block.Quoted(raw.Name.V), block.Quoted(from)), "only one of them can have its state")
		}
	}
}

// folded is a task's name without what file systems of macOS and Windows do not
// tell apart: case, and the ways to write the same letter in Unicode.
func folded(name string) string {
	if !strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) {
		return strings.ToLower(name)
	}
	return norm.NFC.String(strings.ToLower(strings.ToUpper(name)))
}

func (l *loader) task(raw *rawTask, cfg *Config, services map[string]condition.ServiceQuery) Task {
	t := Task{
		Name: raw.Name.V, Description: raw.Description.V, Enabled: raw.Enabled.V, Version: raw.Version.V,
		VariableFiles: raw.VariableFiles.V, AWSRole: raw.AWSRole.V, MovedFrom: raw.MovedFrom.V, Source: raw.Pos,
		WorkingDir: cmp.Or(raw.WorkingDir.V, filepath.Join(cfg.WorkingDir, raw.Name.V)),

		variables: raw.Variables.V,
		buffer:    OwnBufferPeriod{Enabled: raw.BufferPeriod.Enabled.Written(), Min: raw.BufferPeriod.Min.Written(), Max: raw.BufferPeriod.Max.Written()},
		timeout:   raw.RunTimeout.Written(),
		rules:     writtenKeys(reflect.ValueOf(&raw.rawRules).Elem()),
		dir:       raw.WorkingDir.V,
		path:      raw.Path,
	}
	t.Labels = l.labelsOf("task", &raw.Labels)
	t.After, t.AfterTimeout = l.after(raw)
	t.BufferPeriod = l.taskBuffer(&raw.BufferPeriod, cfg.BufferPeriod)
	l.variables(raw, &t, cfg.Vault.Enabled)
	if t.RunTimeout = l.runTimeout(&raw.RunTimeout); t.timeout == nil {
		t.RunTimeout = cfg.RunTimeout
	}
	t.Rules = l.rules(&raw.rawRules, cfg.Rules, cfg.API)
	l.taskName(raw)
	l.awsRole(raw)
	t.Cloud, t.cloud = l.cloudWorkspace(raw, cfg)
	t.Module, t.written = l.module(raw)
	t.Providers = l.taskProviders(raw, cfg)

	t.Condition = l.condition(&raw.Condition)
	inputs := append(slices.Clone(raw.ModuleInputs), raw.SourceInputs...)
	t.ModuleInputs = l.moduleInputs(inputs)
	l.deprecatedServices(raw, &t, services)
	l.uniqueVariables(t.Condition.Kind(), inputs)
	l.impliedCondition(raw, &t)
	l.ownState(raw, &t, cfg)

	switch _, scheduled := t.Condition.Schedule(); {
	case scheduled:
		if buffer := raw.BufferPeriod; buffer.Min.Set || buffer.Max.Set || buffer.Enabled.V {
			l.Warn(buffer.Origin, "buffer_period has no effect on a task with a schedule", "remove it")
		}
		t.BufferPeriod = BufferPeriod{}
		if len(t.ModuleInputs) == 0 && len(raw.Services.V) == 0 && len(inputs) == 0 {
			l.Warn(raw.Condition.Origin, fmt.Sprintf("task %s has a schedule and no module_input: it runs once, and no later time finds anything new to apply", block.Quoted(t.Name)),
				"add a module_input block")
		}
	case t.Condition.Spec == nil && !raw.Condition.Set:
		l.Warn(raw.Origin, fmt.Sprintf("task %s has no condition: it runs once and nothing ever triggers it again", block.Quoted(t.Name)),
			"add a condition block")
	}
	return t
}

// impliedCondition makes the services that the module gets the condition of a task that
// has none, as in Consul-Terraform-Sync.
func (l *loader) impliedCondition(raw *rawTask, t *Task) {
	i := slices.IndexFunc(t.ModuleInputs, func(in condition.Spec) bool { return in.Kind() == condition.ServicesKind })
	if i < 0 || t.Condition.Spec != nil || raw.Condition.Set {
		return
	}
	t.Condition = Condition{Spec: t.ModuleInputs[i], UseAsModuleInput: true}
	t.ModuleInputs = slices.Delete(t.ModuleInputs, i, i+1)
}

// ownState refuses a condition that selects the key of the task's own state: each run writes it, and would
// start the next run.
func (l *loader) ownState(raw *rawTask, t *Task, cfg *Config) {
	keys, ok := t.Condition.Spec.(condition.KeySelector)
	backend := cfg.Terraform.Backend
	if !ok || !t.Condition.UseAsModuleInput || backend.Type != "consul" {
		return
	}
	argument := func(name string) string {
		v, set := backend.Body.Attributes[name]
		if !set || v.IsNull() || v.Type() != cty.String {
			return ""
		}
		return v.AsString()
	}
	host := func(address string) string {
		_, rest, found := strings.Cut(address, "://")
		if !found {
			rest = address
		}
		return strings.TrimSuffix(rest, "/")
	}
	address, state := argument("address"), argument("path")+"-env:"+t.Name
	if keys.Selects(state, argument("datacenter"), argument("namespace")) && (address == "" || host(address) == host(cfg.Consul.Address)) {
		l.Fail(raw.Condition.Origin, fmt.Sprintf("the condition selects %s, where Terraform keeps the state of the task: each run would start the next one", block.Quoted(state)),
			"a path that does not lead to the state, or use_as_module_input = false, or another path in the block backend")
	}
}

func (l *loader) taskName(raw *rawTask) {
	name, at := raw.Name.V, raw.Name.Origin
	switch {
	case name == "":
		l.Missing(raw.Key("name"), "unique name for the task is required", identifierHint)
	case len(name) > maxTaskName:
		l.Fail(at, fmt.Sprintf("the task name %s is too long", block.Quoted(name)), fmt.Sprintf("at most %d bytes: it names a directory and a Terraform workspace", maxTaskName))
	case !identifier(name):
		l.Fail(at, "a task name must start with a letter or underscore and may contain only letters, digits, underscores, and dashes: "+block.Quoted(name), "")
	}
}

// rolePattern is the form of the ARN of an IAM role.
const rolePattern = `^arn:aws[a-z-]*:iam::[0-9]{12}:role/[^\s]+$`

var roleARN = regexp.MustCompile(rolePattern)

func (l *loader) awsRole(raw *rawTask) {
	if role := raw.AWSRole; role.Set && !roleARN.MatchString(role.V) {
		l.Fail(role.Origin, "aws_role is not the ARN of an IAM role: "+block.Quoted(role.V), "such as arn:aws:iam::123456789012:role/load-balancer")
	}
}

// module returns the task's module, a local one as an absolute path, and as it
// was written.
func (l *loader) module(raw *rawTask) (module, written string) {
	if raw.Module.Set && raw.Source.Set {
		l.Warn(raw.Source.Origin, "source has no effect beside module", "remove it")
	}
	module = raw.Module.V
	if !raw.Module.Set {
		module = raw.Source.V
	}
	switch {
	case module == "":
		l.Missing(raw.Key("module"), "module for the task is required", `a directory such as "./my-module", or the address of a Terraform module`)
	case relativeModule(module):
		return l.abs(module), module
	}
	return module, module
}

// taskProviders returns the ids of the provider instances that a task lists. A name is also
// that of the only block of a provider, with its alias. A provider without a block is valid:
// its configuration is empty.
func (l *loader) taskProviders(raw *rawTask, cfg *Config) []string {
	ids := slices.Clone(raw.Providers.V)
	seen := map[string]string{}
	for i, id := range raw.Providers.V {
		at := raw.Providers.Element(i)
		name, alias, hasAlias := strings.Cut(id, ".")
		if !identifier(name) || hasAlias && !identifier(alias) {
			l.Fail(at, "not a provider: "+block.Quoted(id), `a name such as "aws", or a name and an alias such as "aws.west"`)
			continue
		}
		if other, ok := seen[name]; ok {
			l.Fail(at, fmt.Sprintf("only one provider instance per task, and %s is already listed", block.Quoted(other)), "make a task for each")
			continue
		}
		seen[name] = id
		if l.ForServer {
			continue
		}
		others := cfg.instancesOf(name)
		switch _, configured := cfg.Provider(id); {
		case configured:
		case !hasAlias && len(others) == 1:
			ids[i] = others[0]
		case !hasAlias && len(others) > 0:
			l.Warn(at, fmt.Sprintf("every terraform_provider block of %s has an alias: the task gets the provider without configuration", block.Quoted(id)), "configured: "+block.QuotedList(others))
		case hasAlias:
			hint := fmt.Sprintf(`add a block terraform_provider "%s" with alias = "%s"`, name, alias)
			if len(others) > 0 {
				hint = "configured: " + block.QuotedList(others)
			}
			l.Warn(at, fmt.Sprintf("no terraform_provider block configures %s: the task gets the provider without configuration", block.Quoted(id)), hint)
		}
	}
	return ids
}

// services returns the deprecated service blocks by id.
func (l *loader) services(raw []rawService) map[string]condition.ServiceQuery {
	services := map[string]condition.ServiceQuery{}
	for i := range raw {
		r := &raw[i]
		if r.Name.V == "" {
			l.Missing(r.Key("name"), "logical name for the Consul service is required", "")
			continue
		}
		id := cmp.Or(r.ID.V, r.Name.V)
		if _, ok := services[id]; ok {
			l.Fail(r.Origin, "unique service IDs are required: "+block.Quoted(id), "set id to tell them apart")
			continue
		}
		services[id] = condition.ServiceQuery{
			Names:              []string{r.Name.V},
			Datacenter:         r.Datacenter.V,
			Namespace:          r.Namespace.V,
			Filter:             condition.CheckFilter(&l.Report, r.Filter),
			CTSUserDefinedMeta: r.CTSUserDefinedMeta.V,
		}
	}
	return services
}

// deprecatedServices adds the services list to the task as a module input.
func (l *loader) deprecatedServices(raw *rawTask, t *Task, services map[string]condition.ServiceQuery) {
	if len(raw.Services.V) == 0 {
		return
	}
	const onlyOne = `both monitor "services" variable type. only one of these can be configured per task`
	if t.Condition.Kind() == condition.ServicesKind {
		l.Fail(raw.Services.Origin, "task's `services` field and `condition 'services'` block "+onlyOne, "remove services")
		return
	}
	if slices.ContainsFunc(t.ModuleInputs, func(in condition.Spec) bool { return in.Kind() == condition.ServicesKind }) {
		l.Fail(raw.Services.Origin, "task's `services` field and `module_input 'services'` block "+onlyOne, "remove services")
		return
	}
	t.DeprecatedServices = raw.Services.V
	queries := make(condition.Services, 0, len(raw.Services.V))
	for i, id := range raw.Services.V {
		if id == "" {
			l.Fail(raw.Services.Element(i), "a service's name is empty", "")
			continue
		}
		s, ok := services[id]
		if !ok {
			s = condition.ServiceQuery{Names: []string{id}}
		}
		queries = append(queries, s)
	}
	t.ModuleInputs = append([]condition.Spec{joinedQueries(queries)}, t.ModuleInputs...)
}

// joinedQueries makes one query of services that are asked for in the same way.
func joinedQueries(queries condition.Services) condition.Services {
	if len(queries) == 0 {
		return queries
	}
	one := queries[0]
	var names []string
	for _, q := range queries {
		names = append(names, q.Names...)
		q.Names, one.Names = nil, nil
		if !reflect.DeepEqual(q, one) {
			return queries
		}
	}
	one.Names = names
	return condition.Services{one}
}

// runTimeout checks a run_timeout.
func (l *loader) runTimeout(raw *block.Duration) time.Duration {
	if raw.V < 0 {
		l.Fail(raw.Origin, fmt.Sprintf("%s is negative", block.Quoted(raw.V.String())), `a duration such as "30m", or "0s" for no limit`)
	}
	return raw.V
}

// relativeModule reports whether a module, as it was written, is a folder relative
// to Dir.
func relativeModule(module string) bool {
	if runtime.GOOS == "windows" {
		module = filepath.ToSlash(module)
	}
	return strings.HasPrefix(module, "./") || strings.HasPrefix(module, "../")
}
