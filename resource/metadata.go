package resource

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/jsonvalue"
)

// metadata is what a Resource keeps parsed, and where in its JSON the rest is,
// which is validated and read when it is asked for. The strings don't refer to
// the JSON, so that a name which is held elsewhere (in an index, say) doesn't
// keep the whole object in memory.
type metadata struct {
	name, uid, resourceVersion              string
	namespace                               unique.Handle[string]
	generation                              int64
	deletionTimestamp                       *metav1.Time
	labels, annotations, finalizers, owners part
}

// A part is where a value begins in an object's JSON, 0 if there is none.
type part uint32

// raw returns the JSON from the part on, null if there is none. What reads it
// finds the end itself.
func (r *Resource) raw(p part) string {
	if p == 0 {
		return "null"
	}
	return r.text[p:]
}

// copied is raw in a string of its own.
func (r *Resource) copied(p part) string {
	raw := r.raw(p)
	return strings.Clone(raw[:jsonvalue.Skip(raw, 0)])
}

// An owner is an owner reference.
type owner struct {
	apiVersion, kind, name, uid string
	controller, block           optionalBool
}

type optionalBool uint8

const (
	unset optionalBool = iota
	isFalse
	isTrue
)

// reference returns the owner as the API has it; bools is where what it points
// to is put.
func (o owner) reference(bools *[2]bool) metav1.OwnerReference {
	ref := metav1.OwnerReference{APIVersion: o.apiVersion, Kind: o.kind, Name: o.name, UID: types.UID(o.uid)}
	if o.controller != unset {
		bools[0] = o.controller == isTrue
		ref.Controller = &bools[0]
	}
	if o.block != unset {
		bools[1] = o.block == isTrue
		ref.BlockOwnerDeletion = &bools[1]
	}
	return ref
}

// readMetadata reads validated JSON, which begins at start in the object's.
func readMetadata(raw string, start int) (metadata, error) {
	var m metadata
	if raw[0] != '{' && raw != "null" {
		return m, errors.New("metadata: not an object")
	}
	namespace := ""
	for field := range members(raw) {
		var err error
		at := part(start + field.at)
		switch unquote(field.key) {
		case "name":
			m.name, err = readString(field.value)
		case "namespace":
			namespace, err = readString(field.value)
		case "uid":
			m.uid, err = readString(field.value)
		case "resourceVersion":
			m.resourceVersion, err = readString(field.value)
		case "generation":
			m.generation, err = readInt(field.value)
		case "labels":
			m.labels, err = at, checkTexts(field.value)
		case "annotations":
			m.annotations, err = at, checkTexts(field.value)
		case "finalizers":
			m.finalizers, err = at, checkItems(field.value, readString)
		case "ownerReferences":
			m.owners, err = at, checkItems(field.value, readOwner)
		case "deletionTimestamp":
			m.deletionTimestamp, err = readTime(field.value)
		}
		if err != nil {
			return metadata{}, fmt.Errorf("metadata.%s%w", unquote(field.key), err)
		}
	}
	m.namespace = unique.Make(namespace)
	m.own()
	return m, nil
}

// own copies the strings into one of their own.
func (m *metadata) own() {
	var all strings.Builder
	all.Grow(len(m.name) + len(m.uid) + len(m.resourceVersion))
	move := func(s *string) {
		start := all.Len()
		all.WriteString(*s)
		*s = all.String()[start:]
	}
	move(&m.name)
	move(&m.uid)
	move(&m.resourceVersion)
}

// The errors of the read functions are what follows the path of the field that
// was to be read: ": not a string".

func readString(raw string) (string, error) {
	switch raw[0] {
	case '"':
		return unquote(raw[1 : len(raw)-1]), nil
	case 'n':
		return "", nil
	}
	return "", errors.New(": not a string")
}

func readInt(raw string) (int64, error) {
	if raw == "null" {
		return 0, nil
	}
	n, err := strconv.ParseInt(raw, 10, 64)
	if err != nil {
		return 0, errors.New(": not an integer of 64 bits")
	}
	return n, nil
}

func readBool(raw string) (optionalBool, error) {
	switch raw {
	case "null":
		return unset, nil
	case "false":
		return isFalse, nil
	case "true":
		return isTrue, nil
	}
	return unset, errors.New(": neither true nor false")
}

func readTime(raw string) (*metav1.Time, error) {
	if raw == "null" {
		return nil, nil
	}
	text, err := readString(raw)
	if err != nil {
		return nil, err
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, errors.New(": not a time as in RFC 3339")
	}
	return &metav1.Time{Time: t.Local()}, nil
}

func isContainer(raw string, bracket byte) error {
	if raw[0] == bracket || raw[0] == 'n' {
		return nil
	}
	if bracket == '{' {
		return errors.New(": not an object")
	}
	return errors.New(": not a list")
}

// checkTexts checks labels or annotations.
func checkTexts(raw string) error {
	if err := isContainer(raw, '{'); err != nil {
		return err
	}
	for m := range members(raw) {
		if m.value != "null" && m.value[0] != '"' {
			return fmt.Errorf("[%q]: not a string", unquote(m.key))
		}
	}
	return nil
}

// checkItems checks the items of a list.
func checkItems[T any](raw string, read func(string) (T, error)) error {
	if err := isContainer(raw, '['); err != nil {
		return err
	}
	i := 0
	for item := range items(raw) {
		if _, err := read(item); err != nil {
			return fmt.Errorf("[%d]%w", i, err)
		}
		i++
	}
	return nil
}

func readOwner(raw string) (owner, error) {
	var o owner
	if err := isContainer(raw, '{'); err != nil {
		return o, err
	}
	for m := range members(raw) {
		var err error
		switch unquote(m.key) {
		case "apiVersion":
			o.apiVersion, err = readString(m.value)
		case "kind":
			o.kind, err = readString(m.value)
		case "name":
			o.name, err = readString(m.value)
		case "uid":
			o.uid, err = readString(m.value)
		case "controller":
			o.controller, err = readBool(m.value)
		case "blockOwnerDeletion":
			o.block, err = readBool(m.value)
		}
		if err != nil {
			return o, fmt.Errorf(".%s%w", unquote(m.key), err)
		}
	}
	return o, nil
}
