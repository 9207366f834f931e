// Package outbox delivers webhook events. An event is scheduled as a task in the same commit as the
// transition that caused it, so that neither exists without the other. [Outbox.Deliver] makes one attempt for
// a leased task and records the result.
//
// Guarantees: if a transition was acknowledged, its event is either delivered, or listed among the dead
// events for 30 days. Without faults, each event is posted once. After a crash, the event of each lease that
// was in use can be posted a second time, with the same id and bytes. Store errors never use up an attempt.
//
// # The log
//
// The log shows a publisher the state of its events (contract 27). [Outbox.Deliveries] lists it by page,
// [Outbox.Find] returns one entry, and [Outbox.OfSession] the events of one session. An entry is written in
// the commit that records an attempt, so it always matches the record and costs no additional commit. The
// history that the next attempt needs is stored in the task.
//
// An entry has the name
//
//	l/<integration>/<place>        place: <16 hexadecimal digits>-<event id>
//
// in the partition of the event's session. The digits count down with time, so that a list in the order of
// names starts with the latest entry. Waiting and dead entries are stored a second time, under lw/ and ld/:
// three waiting events are found quickly even in a log of a million delivered ones. One cursor, a place,
// works in all partitions.
//
// An entry holds the values of the event's fields in the order of the specification, without their names.
// Values that the entry's name and the other values determine are left out, because the store holds an entry
// for each event of seven days.
//
// An entry is authenticated together with its name: a forged or copied entry could show a publisher a false
// outcome. Its subject (the event, its session and its content) is read from the sealed event alone. The
// times and results of earlier attempts come from the task, which is not authenticated: an attacker who can
// write to the store can change them, but no decision depends on them.
//
// An instance of an earlier release keeps no log. While such instances run in the same fleet, an event that
// one of them ends stays in the log as waiting. Attempts that they made are counted but not listed.
package outbox
