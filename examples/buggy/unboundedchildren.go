package buggy

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

// A policy is a text that auditors want to have the history of, so there is a numbered ConfigMap
// for each of its versions.
type policy struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Text string `json:"text"`
	} `json:"spec"`
}

var policyOperator = config.Operator{
	Name:     "policies",
	Parent:   kind("Policy"),
	Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
}

// policies keeps the ConfigMaps that there are, and adds one if the newest isn't as the Policy is
// now.
//
// The bug: nothing bounds their number, and any change counts, also that of an annotation which
// some other program sets and takes off each minute. What exists must follow from what is now, and
// not from how often it has changed: return a child for what the spec says, and let an audit log or
// Events tell the history.
var policies = handler.Typed(func(_ context.Context, p *policy, children handler.Children) (*handler.SyncResponse, error) {
	now, err := json.Marshal(map[string]any{"annotations": p.Annotations, "text": p.Spec.Text})
	if err != nil {
		return nil, fmt.Errorf("version: %w", err)
	}
	var versions []any
	newest, last := 0, ""
	for version := range children.OfType(k8s.ConfigMap).All() {
		versions = append(versions, handler.Keep(version))
		if n, err := strconv.Atoi(strings.TrimPrefix(version.Name(), p.Name+"-")); err == nil && n > newest {
			content, _ := version.Field("data", "policy")
			newest, last = n, fmt.Sprint(content)
		}
	}
	if last != string(now) {
		versions = append(versions, p.version(strconv.Itoa(newest+1), string(now)))
	}
	return &handler.SyncResponse{Children: versions}, nil
})

func (p *policy) version(suffix, content string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name + "-" + suffix},
		Data:       map[string]string{"policy": content},
	}
}
