package conformance

func podTransitions() map[string]transition {
	return map[string]transition{
		"probe": {"a probe has one handler", aContainer, []string{
			`livenessProbe: {httpGet: {port: 80, path: /}, periodSeconds: 5}`, `livenessProbe: {exec: {command: [a]}}`, `livenessProbe: {tcpSocket: {port: http}}, ports: [{name: http, containerPort: 80}]`, ``,
		}},
		"lifecycle": {"so has a hook", aContainer, []string{
			`lifecycle: {preStop: {exec: {command: [a]}}}`, `lifecycle: {preStop: {httpGet: {port: 80}}}`, `lifecycle: {postStart: {exec: {command: [a]}}}`, ``,
		}},
		"strategy": {"rollingUpdate is a default that nobody has set", aPodTemplate, []string{
			``, `strategy: {type: Recreate}`, `strategy: {rollingUpdate: {maxSurge: 1}}`, `strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: "50%"}}`, `strategy: {type: Recreate}`, ``,
		}},
		"deployment": {"scalars with defaults", aPodTemplate, []string{`paused: true, minReadySeconds: 5, revisionHistoryLimit: 0, progressDeadlineSeconds: 60`, `minReadySeconds: 6`, ``}},
		"volume": {"a volume has one source", aPodSpec, []string{
			`volumes: [{name: v, emptyDir: {}}], ` + main, `volumes: [{name: v, configMap: {name: a}}], ` + main, `volumes: [{name: v, secret: {secretName: a}}, {name: w}], ` + main,
			`volumes: [{name: w, hostPath: {path: /}}, {name: v, projected: {sources: [{secret: {name: a}}]}}], ` + main, `volumes: [{name: v}], ` + main, main,
		}},
		"resources": {"limits and requests", aContainer, []string{
			`resources: {limits: {cpu: 1000m, memory: 1024Mi}, requests: {cpu: "0.5"}}`, `resources: {limits: {cpu: 1}}`, `resources: {requests: {memory: 1Gi}}`, `resources: {}`, ``,
		}},
		"env": {"a variable's value and where it comes from", aContainer, []string{
			`env: [{name: A, value: a}, {name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: C, value: c}]`,
			`env: [{name: A, valueFrom: {secretKeyRef: {name: a, key: a}}}, {name: B, value: b}]`,
			`env: [{name: B, value: $(A)}, {name: A, valueFrom: {configMapKeyRef: {name: a, key: a, optional: true}}}]`,
			`env: [{name: A, value: ""}, {name: B, value: $(A)}]`, `env: []`, ``,
		}},
		"envFrom": {"a list without keys", aContainer, []string{
			`envFrom: [{configMapRef: {name: a}}, {secretRef: {name: a}}]`, `envFrom: [{secretRef: {name: a}, prefix: B}, {configMapRef: {name: a}}]`, `envFrom: [{secretRef: {name: a}}]`, ``,
		}},
		"ports": {"ports by number and protocol", aContainer, []string{
			`ports: [{name: a, containerPort: 53}, {name: b, containerPort: 53, protocol: UDP}]`, `ports: [{name: b, containerPort: 53, protocol: UDP}, {name: c, containerPort: 54}]`,
			`ports: [{containerPort: 54}, {containerPort: 53}]`, `ports: [{containerPort: 54, protocol: SCTP}]`, ``,
		}},
		"mounts": {"mounts by path", aContainer, []string{
			`volumeMounts: [{name: v, mountPath: /a, subPath: a, readOnly: true}, {name: v, mountPath: /b}]`, `volumeMounts: [{name: w, mountPath: /a}, {name: v, mountPath: /c}]`, `volumeMounts: [{name: v, mountPath: /b}]`, ``,
		}},
		"command": {"lists of scalars", aContainer, []string{`command: [a, b], args: [c, c]`, `command: [b, a, a], args: [c]`, `args: []`, ``}},
		"security": {"a profile has one type", aContainer, []string{
			`securityContext: {runAsUser: 1, capabilities: {add: [A, B], drop: [ALL]}, seccompProfile: {type: Localhost, localhostProfile: a}}`,
			`securityContext: {runAsNonRoot: true, capabilities: {add: [B]}, seccompProfile: {type: RuntimeDefault}}`, `securityContext: {}`, ``,
		}},
		"containers": {"containers by name", aPodSpec, []string{
			`containers: [{name: a, image: a}, {name: b, image: b, tty: true}], initContainers: [{name: i, image: a}, {name: j, image: b}]`,
			`containers: [{name: b, image: b}, {name: c, image: c}], initContainers: [{name: j, image: b}, {name: i, image: a, restartPolicy: Always}]`,
			`containers: [{name: c, image: d, imagePullPolicy: Never}], initContainers: [{name: k, image: a}]`, `containers: [{name: c, image: "d:1"}], initContainers: []`,
		}},
		"account": {"serviceAccount is an alias of serviceAccountName that the API server fills in", aPodSpec, []string{`serviceAccountName: a, ` + main, `serviceAccountName: b, ` + main, main}},
		"pod fields": {"scalars with defaults", aPodSpec, []string{
			`hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet, terminationGracePeriodSeconds: 5, enableServiceLinks: false, schedulerName: a, priorityClassName: a, shareProcessNamespace: true, ` + main,
			`hostPID: true, ` + main, main,
		}},
		"scheduling": {"where to run", aPodSpec, []string{
			`nodeSelector: {a: b, c: d}, tolerations: [{key: a, operator: Exists}, {key: b, value: c}], topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}],
				affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b, c]}]}]}}}, ` + main,
			`nodeSelector: {c: e}, tolerations: [{key: b, value: c, effect: NoExecute, tolerationSeconds: 5}], topologySpreadConstraints: [{maxSkew: 2, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}],
				affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: a, labelSelector: {matchLabels: {a: b}}}}]}}, ` + main,
			`nodeSelector: {}, tolerations: [], affinity: {}, topologySpreadConstraints: [], ` + main, main,
		}},
		"pod lists": {"lists of a Pod by their keys", aPodSpec, []string{
			`hostAliases: [{ip: 192.0.2.1, hostnames: [a, b]}, {ip: 192.0.2.2, hostnames: [c]}], imagePullSecrets: [{name: a}, {name: b}], securityContext: {fsGroup: 1, sysctls: [{name: kernel.shm_rmid_forced, value: "1"}]}, ` + main,
			`hostAliases: [{ip: 192.0.2.2, hostnames: [c, d]}], imagePullSecrets: [{name: b}], securityContext: {runAsUser: 1}, ` + main, main,
		}},
		"template meta": {"labels and annotations of the template", aDeployment, []string{
			`template: {metadata: {labels: {app: one, a: b}, annotations: {a: b, c: ""}}, spec: {` + main + `}}`, `template: {metadata: {labels: {app: one}, annotations: {c: d}}, spec: {` + main + `}}`, `template: {metadata: {labels: {app: one}}, spec: {` + main + `}}`,
		}},
	}
}

func otherTransitions() map[string]transition {
	return map[string]transition{
		"service type": {"what a type has allocated goes with it", aService, []string{
			`ports: [{port: 80}]`, `type: NodePort, ports: [{port: 80}], externalTrafficPolicy: Local`, `type: ClusterIP, ports: [{port: 80}]`, `type: LoadBalancer, ports: [{port: 80}], externalTrafficPolicy: Local, loadBalancerSourceRanges: [192.0.2.0/24]`,
			`ports: [{port: 80}]`, `type: ExternalName, externalName: example.com`, `ports: [{port: 80}]`,
		}},
		"service affinity": {"sessionAffinityConfig is a default that nobody has set", aService, []string{
			`sessionAffinity: ClientIP, ports: [{port: 80}]`, `sessionAffinity: None, ports: [{port: 80}]`, `sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 5}}, ports: [{port: 80}]`, `ports: [{port: 80}]`,
		}},
		"service ports": {"ports by number and protocol; targetPort is one or the other", aService, []string{
			`selector: {a: b, c: d}, ports: [{name: a, port: 80, targetPort: http}, {name: b, port: 53, protocol: UDP}, {name: c, port: 53}]`, `selector: {a: e}, ports: [{name: a, port: 80, targetPort: 8080}, {name: c, port: 53, appProtocol: http}]`,
			`ports: [{name: c, port: 80}, {name: d, port: 53, protocol: UDP}]`, `ports: [{port: 81}]`,
		}},
		"configmap": {"a key is in one of two maps", `apiVersion: v1, kind: ConfigMap, %s`, []string{
			`data: {a: b, c: "", d: "1"}, binaryData: {e: AAEC}`, `data: {e: f, c: d}, binaryData: {a: /+8=}`, `binaryData: {a: ""}`, `data: {}`, ``, `data: {a: b}, immutable: true`,
		}},
		"secret": {"stringData is never stored", `apiVersion: v1, kind: Secret, %s`, []string{
			`stringData: {a: b, c: d}, data: {e: Zg==}`, `stringData: {a: x}, data: {c: ZA==, e: Zw==}`, `stringData: {e: h}`, `data: {e: ""}`, ``,
		}},
		"statefulset": {"rollingUpdate is a default that nobody has set", aStatefulSet, []string{
			``, `updateStrategy: {type: OnDelete}`, `updateStrategy: {rollingUpdate: {partition: 2}}, minReadySeconds: 5`, `updateStrategy: {type: RollingUpdate}`, `persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}`, ``,
		}},
		"daemonset": {"so it is here", aDaemonSet, []string{``, `updateStrategy: {type: OnDelete}`, `updateStrategy: {rollingUpdate: {maxUnavailable: "10%"}}`, `minReadySeconds: 1`, ``}},
		"job":       {"what of a Job can be changed", aJob, []string{`parallelism: 2, ttlSecondsAfterFinished: 5, activeDeadlineSeconds: 9, completions: 5`, `parallelism: 3, completions: 5`, `activeDeadlineSeconds: 8, completions: 5`, `completions: 5`}},
		"cronjob": {"a CronJob's defaults", `apiVersion: batch/v1, kind: CronJob, spec: {schedule: "0 0 1 1 *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: example.com/app}]}}}}, %s}`, []string{
			`timeZone: Etc/UTC, concurrencyPolicy: Forbid, startingDeadlineSeconds: 50, suspend: true`, `concurrencyPolicy: Replace, successfulJobsHistoryLimit: 0`, ``,
		}},
		"ingress": {"a backend is a service or something else, its port a number or a name", `apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {%s}`, []string{
			`ingressClassName: a, tls: [{hosts: [example.com], secretName: a}], rules: [{host: example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: a, port: {number: 80}}}}, {path: /a, pathType: Exact, backend: {service: {name: b, port: {number: 80}}}}]}}]`,
			`tls: [{hosts: [example.com]}], rules: [{host: example.com, http: {paths: [{path: /, pathType: ImplementationSpecific, backend: {service: {name: a, port: {name: http}}}}]}}, {host: example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: a, port: {number: 80}}}}]}}]`,
			`rules: [{host: example.org, http: {paths: [{path: /b, pathType: Prefix, backend: {resource: {kind: A, name: a, apiGroup: example.com}}}]}}]`, `defaultBackend: {service: {name: a, port: {number: 80}}}`, `defaultBackend: {resource: {kind: A, name: a, apiGroup: example.com}}`,
		}},
		"hpa": {"metrics have one source, a target one kind of value", `apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, spec: {scaleTargetRef: {kind: Deployment, name: absent, apiVersion: apps/v1}, maxReplicas: 5, %s}`, []string{
			`minReplicas: 2, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}, {type: Pods, pods: {metric: {name: a}, target: {type: AverageValue, averageValue: 1000m}}}], behavior: {scaleUp: {policies: [{type: Pods, value: 4, periodSeconds: 15}]}}`,
			`metrics: [{type: Resource, resource: {name: cpu, target: {type: AverageValue, averageValue: "0.5"}}}], behavior: {scaleDown: {stabilizationWindowSeconds: 5}}`,
			`metrics: [{type: Pods, pods: {metric: {name: a, selector: {matchLabels: {a: b}}}, target: {type: AverageValue, averageValue: 1500m}}}]`, ``,
		}},
		"pdb": {"one of two limits", `apiVersion: policy/v1, kind: PodDisruptionBudget, spec: {selector: {matchLabels: {a: b}}, %s}`, []string{`minAvailable: "50%"`, `maxUnavailable: 1`, `minAvailable: 1, unhealthyPodEvictionPolicy: AlwaysAllow`, `maxUnavailable: "10%"`}},
		"netpol": {"rules are lists without keys", `apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, spec: {podSelector: {}, policyTypes: [Ingress, Egress], %s}`, []string{
			`ingress: [{from: [{podSelector: {matchLabels: {a: b}}}], ports: [{port: 80}, {port: 53, protocol: UDP}]}], egress: [{}]`, `ingress: [{from: [{namespaceSelector: {}}], ports: [{port: http}]}], egress: [{to: [{ipBlock: {cidr: 192.0.2.0/24, except: [192.0.2.1/32]}}]}]`,
			`ingress: [{}], egress: []`, ``,
		}},
		"role":    {"rules are a list without keys", `apiVersion: rbac.authorization.k8s.io/v1, kind: Role, %s`, []string{`rules: [{apiGroups: [""], resources: [pods], verbs: [get, list], resourceNames: [a]}, {apiGroups: [apps], resources: [deployments], verbs: ["*"]}]`, `rules: [{apiGroups: [""], resources: [pods], verbs: [list, get]}]`, `rules: []`, ``}},
		"binding": {"subjects are a list without keys", `apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, roleRef: {kind: Role, name: a, apiGroup: rbac.authorization.k8s.io}, %s`, []string{`subjects: [{kind: User, name: a}, {kind: ServiceAccount, name: a}]`, `subjects: [{kind: ServiceAccount, name: a}, {kind: User, name: b}]`, `subjects: [{kind: Group, name: a}]`, ``}},
		"account": {"references by name", `apiVersion: v1, kind: ServiceAccount, %s`, []string{`imagePullSecrets: [{name: a}, {name: b}], secrets: [{name: a}], automountServiceAccountToken: false`, `imagePullSecrets: [{name: b}]`, ``}},
		"limits":  {"defaults that follow from what was set are in a list without keys", `apiVersion: v1, kind: LimitRange, spec: {limits: [%s]}`, []string{`{type: Container, max: {cpu: 1000m, memory: 1Gi}}`, `{type: Container, max: {cpu: 500m}}`, `{type: Pod, max: {cpu: 2}}, {type: Container, min: {cpu: 100m}}`, `{type: Pod, max: {cpu: 1}}`}},
		"quota":   {"a map", `apiVersion: v1, kind: ResourceQuota, spec: {%s}`, []string{`hard: {requests.cpu: 1000m, count/jobs.batch: 500}`, `hard: {requests.cpu: 2}`, `hard: {}`, ``}},
		"slice":   {"endpoints are a list without keys", `apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, %s`, []string{`endpoints: [{addresses: [192.0.2.1], conditions: {ready: true}}, {addresses: [192.0.2.2]}], ports: [{name: a, port: 80}]`, `endpoints: [{addresses: [192.0.2.2], hostname: a}], ports: [{name: a, port: 81}, {name: b, port: 53, protocol: UDP}]`, `endpoints: [], ports: []`}},
		"claim":   {"labels of what can't be changed", `apiVersion: v1, kind: PersistentVolumeClaim, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}}, metadata: {%s}`, []string{`annotations: {example.com/version: a}`, `annotations: {example.com/version: b}`, ``}},
	}
}
