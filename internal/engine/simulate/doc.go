// Package simulate runs the whole engine in one process, as in AWS, on one machine and in a
// cluster: the real reconcile.Reconciler, Loop, Control and Settle, inforce.Follower, launch.Local
// and runner.Runner, on a store, a Consul, an ECS and clocks in memory that fail as the real ones
// do. It consists of tests only.
//
// A history is created at random from a seed. Functions, containers and processes of the API are
// goroutines in a bubble of testing/synctest, where time passes only when all of them wait. Every
// read, write, start of a container and step of Terraform is a request that waits. The scheduler
// (world.step) waits until all goroutines wait, and then does one thing: it answers a request, loses
// it or its answer, advances the time, changes Consul, kills a process, or lets a person request
// something. So every order of reads and writes is possible, and every process can die at each of
// them. In AWS and on one machine, the same seed creates the same history, because each step takes a
// nanosecond: Go orders timers of one moment at random. In a cluster it nearly always does: Go also
// chooses at random among ready channels, and the race detector changes the order of goroutines.
//
// Every history has its own weather (weather_test.go): the probability of each fault. One operation
// may fail while all others work. In a storm, processes are cut off or frozen for minutes, so that
// others continue their work. Clocks may be hours ahead for a while.
//
// In every third history, tasks have guards, approvals and windows (rules_test.go). Consul
// then loses most entries now and then, or is replaced by another one (replaced_test.go), and
// people approve, reject, hold and release: late, twice, and plans that were replaced
// (approvers_test.go). Some tasks are checked for drift (drift_test.go). In every fifteenth history,
// services shrink in small steps, within the window of a guard and beyond it (shrinking_test.go). In every twelfth history,
// what removed tasks have made is destroyed (removal_test.go). In every eighth history, people pause
// and resume all tasks (pauses_test.go). In every fifth history, containers in AWS linger
// (linger_test.go). In a cluster, instances share runs (shared_test.go). In every tenth history, the
// summary is lost or damaged while ticks run (summary_test.go). A process that ticks never reads the summary now
// and then, in each history.
//
// In histories from seed remoteSeeds on, HCP Terraform applies what tasks need: the real driver
// works with an HCP Terraform in memory, whose requests fail, too, and where people confirm, discard,
// cancel, lock and queue runs (remote_test.go). In every eighth of them, it does not say how many
// resources a plan changes. Such histories are made beside the others. In histories from seed
// thirdSeeds on, another driver works with the same system (third_test.go).
//
// In histories from seed documentSeeds on, tasks watch config entries and resources, and Consul is
// read by the real client (documents_test.go).
//
// After every eighth history, Consul dies, one gate after the other, and comes back (outage_test.go).
//
// In histories from seed orderSeeds on, tasks come after others (order_test.go), and some are verified after
// each apply (verified_test.go). In histories from seed remoteOrderSeeds on, HCP Terraform applies what they need.
//
// In histories from seed fleetSeeds on, a deployment has hundreds of tasks, which queue
// (fleet_test.go). make test-all has 100,000 tasks in 200 deployments.
//
// The judge (judge_test.go, changes_test.go, events_test.go, rules_test.go, window_judge_test.go, remote_judge_test.go)
// checks what must always hold at every write, every step of Terraform and every request to HCP
// Terraform. At the end, the faults stop, and soon everything must be applied as Consul says, or
// wait for a person, and say so.
//
//	make simulate N=100000            # histories from N seeds, on all cores
//	make simulate FOR=60s             # as many as fit
//	make simulate SEED=4711 TRACE=1   # one history, printed step by step
//
// mutants_test.go proves that the simulation catches a broken engine: it breaks the engine's source
// one rule at a time.
package simulate
