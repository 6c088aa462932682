package merge

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// liveDeployment is desiredDeployment after the API server has set defaults, its
// controllers have acted, and a webhook has injected a sidecar.
const liveDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  uid: 0e5b6e1c-8a55-4f5a-9d5e-8d3d3b1f2a11
  resourceVersion: "4711"
  generation: 3
  creationTimestamp: "2026-01-02T03:04:05Z"
  annotations: {deployment.kubernetes.io/revision: "3", example.com/note: ours}
  labels: {app: web, team: other}
  managedFields: [{manager: shop, operation: Update}]
  ownerReferences:
  - {apiVersion: example.com/v1, kind: Shop, name: shop, uid: parent, controller: true, blockOwnerDeletion: true}
spec:
  progressDeadlineSeconds: 600
  replicas: 2
  revisionHistoryLimit: 10
  selector: {matchLabels: {app: web}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}}
  template:
    metadata:
      labels: {app: web, sidecar: injected}
    spec:
      containers:
      - name: proxy
        image: proxy:7
        ports: [{containerPort: 15090, protocol: TCP, name: proxy}]
      - name: app
        image: web:1
        imagePullPolicy: IfNotPresent
        args: [--port, "8080"]
        env:
        - {name: POD_NAME, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}}
        - {name: LEVEL, value: debug}
        - {name: PROXY, value: injected}
        ports:
        - {containerPort: 8080, protocol: TCP, name: http}
        - {containerPort: 8080, protocol: UDP, name: quic}
        resources: {limits: {memory: 1Gi}}
        livenessProbe: {httpGet: {path: /, port: 8080, scheme: HTTP}, failureThreshold: 3, periodSeconds: 10, successThreshold: 1, timeoutSeconds: 1}
        terminationMessagePath: /dev/termination-log
        terminationMessagePolicy: File
        volumeMounts:
        - {name: data, mountPath: /data}
        - {name: data, mountPath: /logs, subPath: logs}
        - {name: token, mountPath: /var/run/secrets, readOnly: true}
      initContainers:
      - {name: proxy-init, image: proxy:7}
      - {name: migrate, image: web:1, imagePullPolicy: IfNotPresent, resources: {}}
      dnsPolicy: ClusterFirst
      restartPolicy: Always
      schedulerName: default-scheduler
      securityContext: {}
      terminationGracePeriodSeconds: 30
      tolerations: [{key: node, operator: Exists, effect: NoSchedule}]
      volumes:
      - {name: data, emptyDir: {}}
      - {name: conf, configMap: {name: conf, defaultMode: 420}}
      - {name: token, projected: {defaultMode: 420}}
status: {replicas: 2, observedGeneration: 3}
`

// desiredDeployment is a Deployment as a handler returns it.
const desiredDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  creationTimestamp: null
  annotations: {example.com/note: ours}
  labels: {app: web}
  ownerReferences:
  - {apiVersion: example.com/v1, kind: Shop, name: shop, uid: parent, controller: true, blockOwnerDeletion: true}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  strategy: {}
  template:
    metadata:
      creationTimestamp: null
      labels: {app: web}
    spec:
      initContainers:
      - {name: migrate, image: web:1, resources: {}}
      containers:
      - name: app
        image: web:1
        args: [--port, "8080"]
        env:
        - {name: POD_NAME, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}}
        - {name: LEVEL, value: debug}
        ports:
        - {containerPort: 8080, name: http}
        - {containerPort: 8080, protocol: UDP, name: quic}
        resources: {limits: {memory: 1Gi}}
        livenessProbe: {httpGet: {path: /, port: 8080}}
        volumeMounts:
        - {name: data, mountPath: /data}
        - {name: data, mountPath: /logs, subPath: logs}
      tolerations: [{key: node, operator: Exists, effect: NoSchedule}]
      volumes:
      - {name: data, emptyDir: {}}
      - {name: conf, configMap: {name: conf}}
status: {}
`

// changeDeployment returns the text of an object with some parts replaced. Each old
// part must be in the text.
func changeDeployment(tb testing.TB, text string, oldAndNew ...string) string {
	tb.Helper()
	for pair := range slices.Chunk(oldAndNew, 2) {
		require.Contains(tb, text, pair[0])
		text = strings.Replace(text, pair[0], pair[1], 1)
	}
	return text
}
