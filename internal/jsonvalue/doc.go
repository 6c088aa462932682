// Package jsonvalue works on JSON values in the form that
// unstructured.Unstructured has them: nil, bool, string, int64, float64,
// map[string]any and []any. It reads and writes their text, compares them, and
// takes their digests:
//
//	value, err := jsonvalue.Decode(text, number)
//	text, err := jsonvalue.Append(nil, value)
//	if jsonvalue.Equal(a, b) && jsonvalue.Sum(a) == jsonvalue.Sum(b) { … }
//
// Decode, Skip and Covers read text that is known to be valid JSON without spaces:
// what the API server has sent and a scanner has looked through, or what
// encoding/json has written. Because of that they need no reflection, and Decode
// takes a third of the time of apimachinery's decoder. On any other text they may
// panic.
//
// The package is pure and keeps no state. No function changes a value that it is
// given. It starts no goroutine, and goroutines may call it concurrently. It
// imports the standard library only.
package jsonvalue
