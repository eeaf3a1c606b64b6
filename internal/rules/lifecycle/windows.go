package lifecycle

// Windowed is what an event does to the window of a guard: to what was applied, and destroyed, before.
type Windowed struct {
	Event  string
	Effect Effect
	Detail string
}

// Anew is the effect of an event after which only what was applied last counts.
const Anew Effect = "**starts again**"

// Windows are all events that meet the window of a guard. A test of package reconcile tries each.
var Windows = []Windowed{
	{"start, takeover by another leader or instance", Keeps, "it is in the store"},
	{"`-once`", Keeps, "the first start after the window has passed judges a waiting plan again"},
	{"an approval of what a guard held, once that is applied", Anew, ""},
	{"an approval that was never applied", Keeps, ""},
	{"a run that fails, is cancelled or is superseded; a plan that is rejected", Keeps, "nothing was applied"},
	{"a run that is applied and not verified", Keeps, "it counts like every run that is applied"},
	{"another process continues the verification of a run", Keeps, "also if the task was removed meanwhile, and comes back"},
	{"disable and enable, hold, pause", Keeps, "its time passes meanwhile"},
	{"a rename", Keeps, "it moves with the task"},
	{"another definition, such as another module", Keeps, ""},
	{"another filter of the condition", Keeps, "what the new filter leaves out counts as gone"},
	{"a condition of another kind", Anew, "there is nothing to compare with"},
	{"other limits", Keeps, "the new limits also apply to a waiting plan"},
	{"a shorter `within`", Anew, "numbers older than the shorter `within` do not count any more"},
	{"a longer `within`", Anew, "numbers that were too old at the latest run stay out; the longer `within` counts from now on"},
	{"the guard is turned off and on without a run", Keeps, ""},
	{"a run while the guard is off, or with `within: 0s`", Anew, ""},
	{"Consul is replaced", Keeps, "[another rule](#a-consul-that-was-replaced) applies first"},
	{"an approval of what a replaced Consul lacks, once that is applied", Anew, ""},
	{"a destroy", Anew, "nothing is left"},
	{"the task is removed, and comes back before `keep_removed` is over", Keeps, "in a file, or through the API"},
	{"the task is removed for longer, or is deleted and created again", Anew, "it is a new task"},
	{"the clock of the leader or of the runner is ahead", Keeps, "the earlier clock counts"},
	{"all clocks are ahead for longer than `within`", Anew, "Terrapulse cannot detect this. When the clocks are right again, a recorded time in the future counts as the time of the tick that reads it"},
}
