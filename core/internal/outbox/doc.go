// Package outbox turns events into deliveries. An event is scheduled as a task in the same commit as
// the transition that caused it, so that neither exists without the other. Deliver makes one attempt of
// a leased task and records the result.
//
// Promised: if a transition was acknowledged, its event ends either delivered or visible among the dead
// events for 30 days. Without faults there is one POST for each event. After a crash there can be a
// second POST for every lease that was in use, with the same id and bytes. Errors of the store never
// use up an attempt.
//
// # The log
//
// The log shows a publisher what became of its events (contract 27). Deliveries lists it by page, Find
// returns one entry, and OfSession the events of one session. The entry of an event is written in the
// commit that records an attempt, so that it says what was recorded and nothing else, and costs no commit
// of its own. What the next attempt has to know of the earlier ones travels in the task.
//
// An entry has the name
//
//	l/<integration>/<place>        place: <16 hexadecimal digits>-<event id>
//
// in the partition of the event's session. The digits count down with time, so that a list in the order of
// names has the latest first. Entries that wait or are dead are there a second time, under lw/ and ld/: in a
// log of a million delivered events the three that wait are found at once. One cursor, a place, works in all
// partitions.
//
// An entry holds the values of the event's members in the order of the specification, and not their names. A
// value that the entry's name and the other values determine is left out, because the store holds an entry
// for each event of seven days.
//
// An entry is authenticated together with its name, because a publisher could be led to believe in an
// outcome by one that is forged or another's. Its subject (which event, of which session, what it says) is
// read from the sealed event alone. The times and results of earlier attempts come from the task, which is
// not authenticated: whoever writes to the store can change those, and nothing is decided by them.
//
// An instance of an earlier release keeps no log. While such instances run beside this one, an event that
// one of them ends stays in the log as waiting, and attempts that they made are counted and not shown.
package outbox
