package lifecycle

// Windowed is what an event does to the window of a guard: to what was applied, and destroyed, before.
type Windowed struct {
	Event  string
	Effect Effect
	Detail string
}

// Anew is the effect of an event after which only what was applied last counts.
const Anew Effect = "**begins anew**"

// Windows are all events that meet the window of a guard. A test of package reconcile tries each.
var Windows = []Windowed{
	{"start, takeover by another leader or instance", Keeps, "it is in the store"},
	{"`-once`", Keeps, "a plan that waits is judged again by the first start after the window has passed"},
	{"an approval of what a guard held, once that is applied", Anew, ""},
	{"an approval that was never applied", Keeps, ""},
	{"a run that fails, is cancelled or is superseded; a plan that is rejected", Keeps, "nothing was applied"},
	{"disable and enable, hold, pause", Keeps, "and its time passes meanwhile"},
	{"a rename", Keeps, "it moves with the task"},
	{"another definition, such as another module", Keeps, ""},
	{"another filter of the condition", Keeps, "what the new filter leaves out counts as gone"},
	{"a condition of another kind", Anew, "there is nothing to compare with"},
	{"other limits", Keeps, "the new limits judge, also a plan that waits"},
	{"a shorter `within`", Anew, "as far as the shorter one has passed"},
	{"a longer `within`", Anew, "as far as the shorter one had passed at the latest run: the longer one counts from now on"},
	{"the guard is turned off and on without a run", Keeps, ""},
	{"a run while the guard is off, or with `within: 0s`", Anew, ""},
	{"Consul is replaced", Keeps, "[its own rule](#a-consul-that-was-replaced) judges first"},
	{"an approval of what a replaced Consul lacks, once that is applied", Anew, ""},
	{"a destroy", Anew, "nothing is left"},
	{"the task is removed, and comes back before `keep_removed` is over", Keeps, ""},
	{"the task is removed for longer, or is deleted and created again", Anew, "it is a new task"},
	{"the clock of the leader or of the runner is ahead", Keeps, "the earlier clock judges"},
	{"all clocks are ahead for longer than `within`", Anew, "nothing shows that the time has not passed; once they are right, a time to come counts like the time at which a tick finds it"},
}
