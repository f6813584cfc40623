{{/* Fields of the pod's spec: security, spread, and how long its end may take. */}}
{{- define "licet-sidecar.pod" -}}
{{- $v := include "licet-sidecar.values" . | fromJson -}}
automountServiceAccountToken: false
enableServiceLinks: false
shareProcessNamespace: false
hostNetwork: false
hostPID: false
hostIPC: false
terminationGracePeriodSeconds: {{ add $v.preStopSeconds $v.drainSeconds 15 }}
securityContext:
  runAsNonRoot: true
  runAsGroup: {{ int $v.users.group }}
  fsGroup: {{ int $v.users.group }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
topologySpreadConstraints:
  {{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "licet-sidecar.selector" $ | nindent 8 }}
  {{- end }}
{{- end -}}

{{/* Requests and limits of the door; takes its values. What is not said of memory goes by the number of workers. */}}
{{- define "licet-sidecar.resources" -}}
{{- $more := sub (int .workers) 1 | int -}}
{{- $requests := dict "memory" (printf "%dMi" (add 96 (mul 96 $more))) -}}
{{- $limits := dict "memory" (printf "%dMi" (add 256 (mul 192 $more))) -}}
{{- $said := .resources -}}
{{- toYaml (dict "requests" (mergeOverwrite $requests ($said.requests | default dict)) "limits" (mergeOverwrite $limits ($said.limits | default dict))) -}}
{{- end -}}

{{/* The sidecar: an item of the pod's initContainers. */}}
{{- define "licet-sidecar.container" -}}
{{- $v := include "licet-sidecar.values" . | fromJson -}}
- name: licet-sidecar
  image: {{ include "licet-sidecar.image" $v.image }}
  imagePullPolicy: {{ $v.image.pullPolicy }}
  # A native sidecar: up before the tool, down after it.
  restartPolicy: Always
  command: [licet, sidecar, serve]
  env:
    - name: POD_IP
      valueFrom: {fieldRef: {fieldPath: status.podIP}}
    - name: LICET_INSTANCE
      valueFrom: {fieldRef: {fieldPath: metadata.name}}
    {{- include "licet-sidecar.sharedEnv" . | nindent 4 }}
    - {name: LICET_LISTEN, value: "$(POD_IP):{{ int $v.port }}"}
    - {name: LICET_HEALTH_LISTEN, value: "$(POD_IP):{{ int $v.healthPort }}"}
    {{- if $v.metrics.port }}
    - {name: LICET_METRICS_LISTEN, value: "$(POD_IP):{{ int $v.metrics.port }}"}
    {{- end }}
    - {name: LICET_LOG_LEVEL, value: {{ $v.logLevel | quote }}}
    {{- with $v.metrics.otlpEndpoint }}
    - {name: LICET_METRICS_ENDPOINT, value: {{ . | quote }}}
    {{- end }}
    - {name: LICET_WORKERS, value: {{ $v.workers | int | quote }}}
    {{- if $v.reflection }}
    - {name: LICET_REFLECTION, value: "true"}
    {{- end }}
    - {name: LICET_TLS_CERTIFICATE_FILE, value: /etc/licet/tls/tls.crt}
    - {name: LICET_TLS_KEY_FILE, value: /etc/licet/tls/tls.key}
    - {name: LICET_TLS_CA_FILE, value: /etc/licet/tls/ca.crt}
    - {name: LICET_SPEND_KEY_FILE, value: {{ printf "/etc/licet/keys/spend-%s.key" $v.tool | quote }}}
    - {name: LICET_CHECKPOINT_KEY_FILE, value: {{ printf "/etc/licet/keys/checkpoint-sidecar-%s.key" $v.tool | quote }}}
    - {name: LICET_DECIDER, value: {{ $v.decider | quote }}}
    - {name: LICET_NATS_URL, value: {{ $v.nats.url | quote }}}
    - {name: LICET_NATS_USER, value: {{ printf "sidecar-%s" $v.tool | quote }}}
    - {name: LICET_NATS_PASSWORD_FILE, value: /etc/licet/nats/password}
    {{- if $v.nats.caSecret }}
    - {name: LICET_NATS_CA_FILE, value: /etc/licet/nats-ca/ca.crt}
    {{- end }}
    - {name: LICET_SPOOL_DIR, value: /var/lib/licet/spool}
    - {name: LICET_QUOTA_PER_SECOND, value: {{ $v.quotaPerSecond | quote }}}
    - {name: LICET_QUOTA_BURST, value: {{ $v.quotaBurst | int | quote }}}
    - {name: LICET_TOOL_TIMEOUT_MS, value: {{ $v.toolTimeoutMs | int | quote }}}
    - {name: LICET_DRAIN_MS, value: {{ mul 1000 $v.drainSeconds | quote }}}
  ports:
    - {name: grpc, containerPort: {{ int $v.port }}}
    - {name: health, containerPort: {{ int $v.healthPort }}}
    {{- if $v.metrics.port }}
    - {name: metrics, containerPort: {{ int $v.metrics.port }}}
    {{- end }}
  # The tool starts after this has passed, so it must not ask for the tool: /live says that keys and spool are open
  # and the door listens. /ready asks for everything else.
  startupProbe: {httpGet: {path: /live, port: health}, periodSeconds: 1, failureThreshold: 60}
  readinessProbe: {httpGet: {path: /ready, port: health}, periodSeconds: 2, failureThreshold: 2}
  livenessProbe: {httpGet: {path: /live, port: health}, periodSeconds: 10, failureThreshold: 3}
  lifecycle:
    # A pod ends its tool first and its native sidecar last. The door must close first: it goes on while the Service
    # forgets this pod, then ends by itself, while the tool's own preStop waits.
    preStop:
      exec:
        command: [python, "-c", "import os, time; time.sleep({{ $v.preStopSeconds }}); os.kill(1, 15)"]
  resources:
    {{- include "licet-sidecar.resources" $v | nindent 4 }}
  securityContext:
    runAsUser: {{ int $v.users.sidecar }}
    runAsNonRoot: true
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL]}
  volumeMounts:
    {{- include "licet-sidecar.sharedMounts" . | nindent 4 }}
    - {name: licet-tmp, mountPath: /tmp}
    - {name: licet-keys, mountPath: /etc/licet/keys, readOnly: true}
    - {name: licet-tls, mountPath: /etc/licet/tls, readOnly: true}
    - {name: licet-nats, mountPath: /etc/licet/nats, readOnly: true}
    {{- if $v.nats.caSecret }}
    - {name: licet-nats-ca, mountPath: /etc/licet/nats-ca, readOnly: true}
    {{- end }}
    - {name: licet-spool, mountPath: /var/lib/licet}
{{- end -}}

{{/* What sidecar and tool both are told. */}}
{{- define "licet-sidecar.sharedEnv" -}}
{{- $v := include "licet-sidecar.values" . | fromJson -}}
- {name: LICET_ENVIRONMENT, value: {{ $v.environment | quote }}}
- {name: LICET_TRUST_DOMAIN, value: {{ $v.trustDomain | quote }}}
- {name: LICET_TOOL, value: {{ $v.tool | quote }}}
- {name: LICET_TOOL_SOCKET, value: {{ $v.socket | quote }}}
- {name: LICET_CATALOG, value: {{ printf "/etc/licet/catalog/%s.catalog" $v.tool | quote }}}
- {name: LICET_ROOT_KEY_FILE, value: /etc/licet/trust/root.pub}
- {name: LICET_TOOL_KEY_FILE, value: {{ printf "/etc/licet/tool-key/tool-%s.key" $v.tool | quote }}}
- {name: LICET_GENERATION, value: {{ $v.generation | int | quote }}}
{{- with $v.otlpEndpoint }}
- {name: LICET_OTLP_ENDPOINT, value: {{ . | quote }}}
{{- end }}
{{- end -}}

{{- define "licet-sidecar.sharedMounts" -}}
{{- $v := include "licet-sidecar.values" . | fromJson -}}
- {name: licet-socket, mountPath: {{ dir $v.socket | quote }}}
- {name: licet-trust, mountPath: /etc/licet/trust, readOnly: true}
- {name: licet-catalog, mountPath: /etc/licet/catalog, readOnly: true}
- {name: licet-tool-key, mountPath: /etc/licet/tool-key, readOnly: true}
{{- end -}}

{{/* The tool's environment: items of its container's env. */}}
{{- define "licet-sidecar.toolEnv" -}}
{{ include "licet-sidecar.sharedEnv" . }}
{{- end -}}

{{/* The tool's mounts: items of its container's volumeMounts. */}}
{{- define "licet-sidecar.toolMounts" -}}
{{ include "licet-sidecar.sharedMounts" . }}
{{- end -}}

{{/* Security and end of the tool's container: fields of the container. */}}
{{- define "licet-sidecar.toolContainer" -}}
{{- $v := include "licet-sidecar.values" . | fromJson -}}
{{- $wait := add $v.preStopSeconds $v.drainSeconds 1 -}}
securityContext:
  runAsUser: {{ int $v.users.tool }}
  runAsNonRoot: true
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
lifecycle:
  # The tool goes on until its door has drained.
  {{- if semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version }}
  preStop: {sleep: {seconds: {{ $wait }}}}
  {{- else }}
  preStop: {exec: {command: [sleep, {{ $wait | quote }}]}}
  {{- end }}
{{- end -}}

{{/* Items of the pod's volumes. */}}
{{- define "licet-sidecar.volumes" -}}
{{- $v := include "licet-sidecar.values" . | fromJson -}}
- name: licet-socket
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
- name: licet-tmp
  emptyDir: {sizeLimit: 64Mi}
- name: licet-spool
  emptyDir: {sizeLimit: {{ $v.spool.sizeLimit | quote }}}
- name: licet-trust
  configMap: {name: {{ $v.trust.configMap | quote }}}
- name: licet-catalog
  configMap: {name: {{ $v.catalog | quote }}}
- name: licet-keys
  secret: {secretName: {{ default (printf "licet-%s-sidecar-keys" $v.tool) $v.keysSecret | quote }}, defaultMode: 0440}
- name: licet-tool-key
  secret: {secretName: {{ default (printf "licet-%s-tool-key" $v.tool) $v.toolKeySecret | quote }}, defaultMode: 0440}
- name: licet-nats
  secret: {secretName: {{ default (printf "licet-nats-sidecar-%s" $v.tool) $v.nats.secret | quote }}, defaultMode: 0440}
{{- with $v.nats.caSecret }}
- name: licet-nats-ca
  secret: {secretName: {{ . | quote }}, defaultMode: 0440}
{{- end }}
- name: licet-tls
  {{- if eq $v.tls.source "csi" }}
  csi:
    driver: csi.cert-manager.io
    readOnly: true
    volumeAttributes:
      csi.cert-manager.io/issuer-name: {{ $v.tls.issuer.name | quote }}
      csi.cert-manager.io/issuer-kind: {{ $v.tls.issuer.kind | quote }}
      csi.cert-manager.io/issuer-group: {{ $v.tls.issuer.group | quote }}
      csi.cert-manager.io/uri-sans: {{ include "licet-sidecar.spiffeId" . | quote }}
      csi.cert-manager.io/dns-names: {{ include "licet-sidecar.dnsNames" . | quote }}
      csi.cert-manager.io/key-usages: "digital signature,server auth,client auth"
      csi.cert-manager.io/fs-group: {{ int $v.users.group | quote }}
  {{- else }}
  secret: {secretName: {{ default (printf "licet-%s-tls" $v.tool) $v.tls.secret | quote }}, defaultMode: 0440}
  {{- end }}
{{- end -}}
