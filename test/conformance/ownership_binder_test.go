package conformance

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

func TestC249_ClaimRef(t *testing.T) {
	scenario(t, "C249", "the claimRef of a PersistentVolume, of which the handler sets two fields and the binder the others, stays bound under every strategy, and nothing is written")
	needsControllerManager(t)
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			cfg := operator("c249-"+lower(strategy), childrenBy(strategy, k8s.PersistentVolume)...)
			cfg.Parent = clusterParentType
			s := newStageWith(t, cfg, testkit.KitOptions{})
			s.parent = "c249-" + lower(strategy) + "-" + rand.String(5)
			volume := func(label string) map[string]any {
				return manifest(t, fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolume, metadata: {name: %s, labels: {v: %q}}, spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi},
					persistentVolumeReclaimPolicy: Retain, hostPath: {path: /none}, storageClassName: absent, claimRef: {name: claim, namespace: %s}}}`, s.parent, label, s.Namespace))
			}
			s.want(volume("1"))
			admin, _ := clients(t, "somebody")
			class := "absent"
			_, err := admin.CoreV1().PersistentVolumeClaims(s.Namespace).Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim"}, Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &class, VolumeName: s.parent, AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": apiresource.MustParse("1Gi")}},
			}}, metav1.CreateOptions{})
			require.NoError(t, err)
			eventually(t, "it is bound", func() bool { return s.field(volume(""), "status", "phase") == "Bound" })
			uid, claim := s.Get(volume("")).UID(), s.field(volume(""), "spec", "claimRef", "uid")
			require.NotNil(t, claim)
			bound := func() {
				t.Helper()
				settle(t, s.Kit)
				require.Empty(t, s.errors())
				live := s.Get(volume(""))
				require.False(t, live.IsDeleting())
				require.Equal(t, uid, live.UID())
				require.Equal(t, claim, s.field(volume(""), "spec", "claimRef", "uid"))
			}
			bound()
			s.silent()
			s.restart()
			bound()
			if strategy != config.Recreate {
				s.want(volume("2"))
				bound()
			}
		})
	}
}
