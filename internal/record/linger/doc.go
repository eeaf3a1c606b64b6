// Package linger gives launches to runners that linger: containers that have ended
// their runs and wait for more, so that a change is applied within seconds instead of
// the time that a container needs to start.
//
// # Who writes what
//
// Two records decide everything. Each write names the versions that were read.
//
//   - The runner writes runner/ID when it has ended a launch with success: it is free.
//     It reads the record twice a second. It deletes the record when it ends without a
//     launch; otherwise settle deletes it.
//   - The leader reads runner/ only if it has something to launch. It writes an offer in
//     the same step as the launch: Offer in launch/L names the runner, Offer in
//     runner/ID names the launch. This needs a runner that is free and that was made from
//     the leader's task definition. A launch without Offer gets a container at once.
//   - The runner takes the launch: Taker in launch/L becomes its id and Launch in
//     runner/ID the launch, in one step, only while the offer is in both.
//   - The leader withdraws an offer that was not taken within 5 s: Taker in launch/L
//     becomes "container", and runner/ID is deleted, in one step, under its fencing token.
//     Only then it starts a container.
//
// So Taker is set once, by the runner or by the leader, and decides which of them has the
// launch. That is all that the protocol adds: each run is still claimed by itself, and
// carried out once, whatever becomes of the launch.
//
// # What may go wrong
//
//   - The leader dies after the offer, or its answer is lost: the task's record names the
//     offer (LiveRun.Offer), so the next leader reads the launch. It goes on with the rest
//     of the 5 s, or withdraws.
//   - The leader dies after the withdrawal: the next leader reads "container", finds no
//     container in ECS and starts one. The client token is the launch's id.
//   - The runner dies while it is free: the offer is withdrawn, and its record is deleted
//     with it, so that this costs 5 s once. Settle deletes the record, too.
//   - The runner dies after it took a launch: whether its runs are alive is read from the
//     status of the taker, not of the launch. Settle reads from runner/ID which launch the
//     container had taken. The runs are lost and decided again.
//   - The answer to the taking is lost: the runner reads its own record again, which names
//     the launch. Nobody else writes Launch there.
//   - The runner is slow, frozen or cut off: its taking is refused after the withdrawal. It
//     finds its record gone, and ends.
//   - An event of ECS comes late, twice or never: settling is idempotent, and the status
//     of the taker says the same.
//   - ECS forgets a client token and starts two containers for one launch: each has an id
//     of its own. A container lingers only if it carried out all runs of its launch itself.
//   - Clocks differ: no decision about the taker depends on a time of another process. Until
//     only spares offers to runners that have ended. The 5 s are measured by the leader that
//     waits.
//   - A deployment changes the parameter Linger: a launch says itself how long its runner
//     lingers and whether it was offered. Without Linger nothing here is read or written,
//     except about launches that were offered before.
//   - A deployment changes the task definition (image, program, parameters of containers): a
//     runner of another revision gets no offer. The leader deletes its record, and it ends.
//   - A bundle is pushed: a launch names its bundle, and the runner reads that one.
//   - ECS stops the container (Spot, a person): the runner deletes its record and ends. Runs
//     that it has not begun are lost, with the event of the stop, and decided again.
//   - Secrets are rotated: a container has the tokens of its start. It takes no launch after
//     the first hour, and it ends after a launch in which a run failed: the retry gets a
//     new container.
//
// # Instances of a cluster
//
// An instance of a cluster is a runner, too (Instance), with these differences:
//
//   - It carries out several launches at a time: its record says for how many more runs it
//     has room. It is written when that changes, and not as a sign of life. An instance
//     reserves the room before it takes a launch, so that it claims the runs at once.
//   - A launch is written without an offer, and waits at the leader. Offer is set once, when
//     an instance has room, under the fencing token. After a withdrawal the leader carries
//     out the launch itself: who has it then is "container", as for containers.
//   - An instance whose record was deleted writes it again. So a dead one costs 5 s once, and
//     one that was slow gets offers again.
//   - Nobody reports that an instance has died: the claims of its runs expire. TakenAt shows
//     when runs that it took and did not claim are lost.
//   - Definition is a digest of the instance's files, its Terraform and the modules that it
//     lacks. An offer names that of the leader. An instance that works with something else
//     by now, or that does not understand the launch, does not take it.
//   - The leader is lost after an offer: the next one reads the launch when it finds the run
//     unclaimed, and waits or withdraws. The leader is lost before: the launch has no offer,
//     so the next one starts it. The former one may begin it as well, as ever: the claim
//     decides.
//
// # Other versions of Terrapulse
//
// Nothing compares versions: only the format of a record says who can read it (state.Format).
//
//   - A newer instance writes a record that an older leader cannot read: it gets no offer. If it was offered
//     a launch before its upgrade, the leader withdraws the offer and leaves the record of the instance as it is.
//   - A newer leader writes its offers into records that an older instance cannot read: the instance takes
//     nothing, and the offer is withdrawn.
//
// # States that the backend did not take
//
// Such a state (errored.tfstate) is in the folder of the task on one instance, and a run that begins
// elsewhere makes again what is only in that state. So:
//
//   - The outcome of the run says which instance keeps the state (state.Unsaved), in the run and in the
//     task, until a run has saved it or has succeeded without it. The next leader reads it there.
//   - The launch of the next run names that instance (For, Only). It waits until the instance has room, and
//     is offered to no other. As long as the instance cannot be offered a launch, the task does not run.
//   - The instance dies meanwhile, or has lost the file: the leader, or the instance itself, begins the run,
//     and the driver refuses it, because neither its folder nor the backend has the state. So no decision
//     about the state depends on who is believed to be there.
//   - The instance restarts with the same id: it has the same folder, and saves the state.
//   - A person requests a run (or the state is not on an instance): the run begins without the state, and
//     its plan waits for an approval, unless the backend has the state by then.
//   - A run is lost: nobody knows whether it left a state. A killed Terraform leaves none, but one that was
//     interrupted while Consul was away may have. The launch of the next run names the instance (For, not
//     Only): it is offered to no other for 20 s, if the instance is there. To wait longer would cost more
//     than the state is worth: a dead instance may never come back.
//
// A container carries out one launch at a time. What is launched meanwhile gets another
// runner, so that as many containers linger as worked at the same time.
package linger
