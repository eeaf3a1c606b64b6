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
// A container carries out one launch at a time. What is launched meanwhile gets another
// runner, so that as many containers linger as worked at the same time.
package linger
