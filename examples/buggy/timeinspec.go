package buggy

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

// A site is served by a proxy, whose configuration file is in a ConfigMap.
type site struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Host    string `json:"host"`
		Backend string `json:"backend"`
	} `json:"spec"`
}

var siteOperator = config.Operator{
	Name:     "sites",
	Parent:   kind("Site"),
	Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
}

// sites makes the file, which tells its readers in a comment when it was made.
//
// The bug: the time. Each pass, whatever the reason for it is, makes another file, and restarts the
// proxies that mount it. That it has no seconds only makes it rarer. When an object was changed is
// in its metadata.managedFields; a time that is needed belongs into the parent, or is kept in a
// child once it was set.
var sites = handler.Typed(func(_ context.Context, s *site, _ handler.Children) (*handler.SyncResponse, error) {
	made := "# made at " + time.Now().UTC().Format("2006-01-02 15:04") + "\n"
	return &handler.SyncResponse{Children: []any{s.file(made)}}, nil
})

func (s *site) file(comment string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name},
		Data:       map[string]string{"proxy.conf": fmt.Sprintf("%sserver_name %s;\nproxy_pass %s;\n", comment, s.Spec.Host, s.Spec.Backend)},
	}
}
