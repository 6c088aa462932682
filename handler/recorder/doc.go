// Package recorder records the calls of a handler into files: what the handler was asked, and
// what it answered. testkit.Replay makes a regression test of each file, and a scenario of
// testkit.Storm can begin with one. The package is made for production: it links no test code,
// and its files have a bounded size.
//
//	h, err := recorder.New(sites, recorder.Options{Path: "/var/recordings/sites.jsonl"})
//	if err != nil {
//		return err
//	}
//	runner.Main(operator, h)
//
// # What is recorded
//
// Recorded is each call of Sync and Finalize that has returned, with its error if there was
// one. Not recorded are calls
//
//   - about a parent that Options.Select leaves out
//   - that are part of a plan, or of an operator with config.Operator.DryRun: see
//     handler.IsPlan. (testkit.Record, for tests, records these, too.)
//   - that panic
//   - whose answer can't be encoded: the engine refuses it, too
//   - whose line doesn't fit into a file of Options.MaxBytes
//   - while the file can't be written
//
// The values of Secrets, and kubectl's last-applied annotations, aren't in the files. In their
// place are texts that nobody can find a value by, equal ones for equal values. That holds for
// the lines of one Recorder: each has a random key of its own, which it never tells. All other
// values are in the files as they are, so treat the files as you treat the objects.
//
// # The files
//
// A file is a recording of its own, with a header and a line of JSON for each call, and can be
// copied at any time. A line is in one file as a whole. It is written by a single write before
// the call returns, and stays in the system's cache until that writes it to the disk. Files
// are created with mode 0600; one that is there already keeps its mode. Their folder must exist.
//
// New goes on with the file that is there. If a crash has left half a line at its end, that
// half is cut off before the next line is written. A file of another version of the format is
// put aside, as a full one is. A file that is no recording is never touched: it is an error.
//
// Somebody else may move the file away, remove it or empty it at any time: the next call begins
// another one. But only one Recorder may write to a Path at a time. A process that records
// nothing, such as one that runs the subcommand plan beside the operator, does no harm: a file
// that is there is changed only when a call is recorded.
//
// # Errors
//
// Whatever becomes of the file, the handler's answer is what it is without a Recorder. If the
// file can't be written (the disk is full, or the folder is gone), that is logged once. Calls
// pass unrecorded for a minute, and then the next one is a new attempt. The log says, too, when
// recording goes on.
//
// A file that takes long to write holds up the calls. So it should be on a local disk.
package recorder
