// Package simulate runs the engine as a whole, in one process, as it works in
// AWS, on one machine and in a cluster: the real reconcile.Reconciler, Loop,
// Control and Settle, inforce.Follower, launch.Local and runner.Runner, on a
// store, a Consul, an ECS and clocks that are in memory and fail as the real ones
// do. It consists of tests only.
//
// A history is made by chance from a seed. Functions, containers and processes
// of the API are goroutines in a bubble of testing/synctest, where time passes
// only when all of them wait. Whatever one of them asks of the world, be it a read, a write,
// the start of a container or a step of Terraform, is a request that waits for
// its turn. The scheduler (world.step) waits until nobody moves, and then lets
// one thing happen: it answers a request, loses it or its answer, lets time
// pass, changes Consul, kills someone, has a person ask for something. So every
// order of reads and writes is possible, everybody can die at each of them, and
// the same seed makes the same history in AWS. On one machine and in a cluster it
// nearly always does: Go chooses at random among the channels that are ready when
// a Loop waits, and the race detector changes in which order goroutines run.
//
// Every history has its own weather (weather_test.go): how likely which fault is.
// Single operations may fail while all others work, and in a storm processes
// are cut off or frozen for minutes, so that others take their work over. Clocks
// may be hours ahead for a while.
//
// What must always hold (judge_test.go, changes_test.go) is looked at with every
// write and every step of Terraform. Then the faults end, and before long everything must be
// applied as Consul says.
//
//	make simulate N=100000            # histories from N seeds, on all cores
//	make simulate FOR=60s             # as many as fit
//	make simulate SEED=4711 TRACE=1   # one, told step by step
//
// That a broken engine is caught is proved by mutants_test.go, which breaks the
// engine's source one rule at a time.
package simulate
