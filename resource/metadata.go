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
)

// metadata is what a Resource keeps parsed. Its strings don't refer to the
// object's JSON, apart from annotations, so that a name or label which is held
// elsewhere (in an index, say) doesn't keep the whole object in memory.
type metadata struct {
	name, uid, resourceVersion string
	namespace                  unique.Handle[string]
	generation                 int64
	labels                     []label
	annotations                []rawMember // values still escaped
	finalizers                 []string
	owners                     []owner
	deletionTimestamp          *metav1.Time
}

type label struct {
	key   unique.Handle[string]
	value string
}

// text returns the value of a member that is a string or null.
func (m rawMember) text() string {
	if m.value[0] != '"' {
		return ""
	}
	return unquote(m.value[1 : len(m.value)-1])
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

func (b optionalBool) pointer() *bool {
	if b == unset {
		return nil
	}
	value := b == isTrue
	return &value
}

func (o owner) reference() metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion:         o.apiVersion,
		Kind:               o.kind,
		Name:               o.name,
		UID:                types.UID(o.uid),
		Controller:         o.controller.pointer(),
		BlockOwnerDeletion: o.block.pointer(),
	}
}

// readMetadata reads validated JSON.
func readMetadata(raw string) (metadata, error) {
	var m metadata
	if raw[0] != '{' && raw != "null" {
		return m, errors.New("metadata: not an object")
	}
	namespace := ""
	for field := range members(raw) {
		var err error
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
			m.labels, err = readLabels(field.value)
		case "annotations":
			m.annotations, err = readAnnotations(field.value)
		case "finalizers":
			m.finalizers, err = readStrings(field.value)
		case "ownerReferences":
			m.owners, err = readOwners(field.value)
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
	size := len(m.name) + len(m.uid) + len(m.resourceVersion)
	for i := range m.labels {
		size += len(m.labels[i].value)
	}
	for i := range m.finalizers {
		size += len(m.finalizers[i])
	}
	for i := range m.owners {
		o := &m.owners[i]
		size += len(o.apiVersion) + len(o.kind) + len(o.name) + len(o.uid)
	}
	var all strings.Builder
	all.Grow(size)
	move := func(s *string) {
		start := all.Len()
		all.WriteString(*s)
		*s = all.String()[start:]
	}
	move(&m.name)
	move(&m.uid)
	move(&m.resourceVersion)
	for i := range m.labels {
		move(&m.labels[i].value)
	}
	for i := range m.finalizers {
		move(&m.finalizers[i])
	}
	for i := range m.owners {
		o := &m.owners[i]
		move(&o.apiVersion)
		move(&o.kind)
		move(&o.name)
		move(&o.uid)
	}
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

func readLabels(raw string) ([]label, error) {
	if err := isContainer(raw, '{'); err != nil {
		return nil, err
	}
	count := 0
	for range members(raw) {
		count++
	}
	labels := make([]label, 0, count)
	for m := range members(raw) {
		value, err := readString(m.value)
		if err != nil {
			return nil, fmt.Errorf("[%q]%w", unquote(m.key), err)
		}
		labels = append(labels, label{key: unique.Make(unquote(m.key)), value: value})
	}
	return labels, nil
}

func readAnnotations(raw string) ([]rawMember, error) {
	if err := isContainer(raw, '{'); err != nil {
		return nil, err
	}
	count := 0
	for range members(raw) {
		count++
	}
	annotations := make([]rawMember, 0, count)
	for m := range members(raw) {
		if m.value != "null" && m.value[0] != '"' {
			return nil, fmt.Errorf("[%q]: not a string", unquote(m.key))
		}
		annotations = append(annotations, m)
	}
	return annotations, nil
}

func readStrings(raw string) ([]string, error) {
	if err := isContainer(raw, '['); err != nil {
		return nil, err
	}
	var list []string
	for item := range items(raw) {
		text, err := readString(item)
		if err != nil {
			return nil, fmt.Errorf("[%d]%w", len(list), err)
		}
		list = append(list, text)
	}
	return list, nil
}

func readOwners(raw string) ([]owner, error) {
	if err := isContainer(raw, '['); err != nil {
		return nil, err
	}
	count := 0
	for range items(raw) {
		count++
	}
	owners := make([]owner, 0, count)
	for item := range items(raw) {
		o, err := readOwner(item)
		if err != nil {
			return nil, fmt.Errorf("[%d]%w", len(owners), err)
		}
		owners = append(owners, o)
	}
	return owners, nil
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
