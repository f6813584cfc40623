{{- define "licet.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 48 | trimSuffix "-" -}}
{{- end -}}

{{- define "licet.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 48 | trimSuffix "-" -}}
{{- else if contains (include "licet.name" .) .Release.Name -}}
{{- .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "licet.name" .) | trunc 48 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "licet.serviceAccount" -}}
{{- default (include "licet.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{/* Labels that select: a dict of root and component. */}}
{{- define "licet.selector" -}}
app.kubernetes.io/name: {{ include "licet.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "licet.labels" -}}
{{ include "licet.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: licet
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | quote }}
{{- end -}}

{{/* An image by digest where there is one, else by tag. */}}
{{- define "licet.image" -}}
{{- if .digest -}}
{{ printf "%s@%s" .repository .digest | quote }}
{{- else -}}
{{ printf "%s:%s" .repository .tag | quote }}
{{- end -}}
{{- end -}}

{{/* The security of a pod: nobody's user, a group for mounted secrets, no token. */}}
{{- define "licet.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 64001
  runAsGroup: 64001
  fsGroup: 64001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range $name, $on := . }}{{ if $on }}
  - name: {{ $name | quote }}
  {{- end }}{{ end }}
{{- end }}
{{- end -}}

{{- define "licet.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{/* Spread over hosts and zones: a dict of root and component. */}}
{{- define "licet.spread" -}}
topologySpreadConstraints:
  {{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "licet.selector" $ | nindent 8 }}
  {{- end }}
{{- end -}}

{{/* What every process is told: a dict of root and user (of nats.users). */}}
{{- define "licet.env" -}}
- {name: LICET_ENVIRONMENT, value: {{ .root.Values.environment | quote }}}
- {name: LICET_TRUST_DOMAIN, value: {{ .root.Values.trustDomain | quote }}}
- {name: LICET_ROOT_KEY_FILE, value: /etc/licet/trust/root.pub}
{{- with .root.Values.otlpEndpoint }}
- {name: LICET_OTLP_ENDPOINT, value: {{ . | quote }}}
{{- end }}
{{- if .user }}
- {name: LICET_NATS_URL, value: {{ .root.Values.nats.url | quote }}}
- {name: LICET_NATS_USER, value: {{ .user.name | quote }}}
- {name: LICET_NATS_PASSWORD_FILE, value: /etc/licet/nats/password}
{{- if .root.Values.nats.caSecret }}
- {name: LICET_NATS_CA_FILE, value: /etc/licet/nats-ca/ca.crt}
{{- end }}
{{- end }}
{{- end -}}

{{/* What a long-running process says of itself, and where: variables, and the container's port. */}}
{{- define "licet.metricsEnv" -}}
- {name: LICET_LOG_LEVEL, value: {{ .Values.logLevel | quote }}}
{{- with .Values.metrics.otlpEndpoint }}
- {name: LICET_METRICS_ENDPOINT, value: {{ . | quote }}}
{{- end }}
{{- if .Values.metrics.port }}
- {name: LICET_METRICS_LISTEN, value: "$(POD_IP):{{ .Values.metrics.port }}"}
{{- end }}
{{- end -}}

{{- define "licet.metricsPort" -}}
{{- if .Values.metrics.port }}
- {name: metrics, containerPort: {{ .Values.metrics.port }}}
{{- end }}
{{- end -}}

{{- define "licet.metricsIngress" -}}
- from: [{namespaceSelector: {matchLabels: {{ .Values.metrics.scrapers | toJson }}}}]
  ports: [{protocol: TCP, port: metrics}]
{{- end -}}

{{- define "licet.clickhouseEnv" -}}
- {name: LICET_CLICKHOUSE_URL, value: {{ .root.Values.clickhouse.url | quote }}}
- {name: LICET_CLICKHOUSE_USER, value: {{ .user.name | quote }}}
- {name: LICET_CLICKHOUSE_PASSWORD_FILE, value: /etc/licet/clickhouse/password}
- {name: LICET_CLICKHOUSE_DATABASE, value: {{ .root.Values.clickhouse.database | quote }}}
- {name: LICET_CLICKHOUSE_CLUSTER, value: {{ .root.Values.clickhouse.cluster | quote }}}
- {name: LICET_RETENTION_DAYS, value: {{ .root.Values.clickhouse.retentionDays | int | quote }}}
- {name: LICET_PAYLOAD_DAYS, value: {{ .root.Values.clickhouse.payloadDays | int | quote }}}
{{- end -}}

{{- define "licet.mounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: trust, mountPath: /etc/licet/trust, readOnly: true}
{{- if .user }}
- {name: nats, mountPath: /etc/licet/nats, readOnly: true}
{{- if .root.Values.nats.caSecret }}
- {name: nats-ca, mountPath: /etc/licet/nats-ca, readOnly: true}
{{- end }}
{{- end }}
{{- end -}}

{{- define "licet.volumes" -}}
- name: tmp
  emptyDir: {sizeLimit: 64Mi}
- name: trust
  configMap: {name: {{ .root.Values.trust.configMap | quote }}}
{{- if .user }}
- name: nats
  secret: {secretName: {{ .user.secret | quote }}, defaultMode: 0440}
{{- if .root.Values.nats.caSecret }}
- name: nats-ca
  secret: {secretName: {{ .root.Values.nats.caSecret | quote }}, defaultMode: 0440}
{{- end }}
{{- end }}
{{- end -}}

{{/* The DNS names of the decider's certificate. */}}
{{- define "licet.dnsNames" -}}
{{- $name := include "licet.fullname" . -}}
{{ printf "%s,%s.%s,%s.%s.svc" $name $name .Release.Namespace $name .Release.Namespace }}
{{- end -}}

{{/* The certificate of a part as a volume: a dict of root, id (path below the environment), dns and secret. */}}
{{- define "licet.tlsVolume" -}}
- name: tls
  {{- if eq .root.Values.tls.source "csi" }}
  csi:
    driver: csi.cert-manager.io
    readOnly: true
    volumeAttributes:
      csi.cert-manager.io/issuer-name: {{ .root.Values.tls.issuer.name | quote }}
      csi.cert-manager.io/issuer-kind: {{ .root.Values.tls.issuer.kind | quote }}
      csi.cert-manager.io/issuer-group: {{ .root.Values.tls.issuer.group | quote }}
      csi.cert-manager.io/uri-sans: {{ printf "spiffe://%s/%s/%s" .root.Values.trustDomain .root.Values.environment .id | quote }}
      csi.cert-manager.io/dns-names: {{ .dns | quote }}
      csi.cert-manager.io/key-usages: "digital signature,server auth,client auth"
      csi.cert-manager.io/fs-group: "64001"
  {{- else }}
  secret: {secretName: {{ .secret | quote }}, defaultMode: 0440}
  {{- end }}
{{- end -}}

{{/* What the decider may be given besides, each from a Secret or a ConfigMap of its own: a list of dicts of
     variable, mount, file, and secret or configMap; only those that are named. */}}
{{- define "licet.deciderFiles" -}}
{{- $d := .Values.decider -}}
{{- $files := list
  (dict "variable" "LICET_ISSUERS_FILE" "name" "issuers" "file" "/issuers.yaml" "secret" $d.issuersSecret)
  (dict "variable" "LICET_WEBHOOKS_FILE" "name" "webhooks" "file" "/webhooks.yaml" "secret" $d.webhooksSecret)
  (dict "variable" "LICET_RELATIONS_FILE" "name" "relations" "file" "/relations.yaml" "configMap" $d.relationsConfigMap) -}}
{{- $named := list -}}
{{- range $files }}{{ if or .secret .configMap }}{{ $named = append $named . }}{{ end }}{{ end -}}
{{- $named | toJson -}}
{{- end -}}

{{/* What tools serve, where a tool's chart publishes it: tool=file pairs. */}}
{{- define "licet.served" -}}
{{- $pairs := list -}}
{{- range $name, $tool := .Values.tools -}}
{{- with $tool.served }}{{ $pairs = append $pairs (printf "%s=/etc/licet/served/%s/%s" $name $name .key) }}{{ end -}}
{{- end -}}
{{- join "," $pairs -}}
{{- end -}}

{{- define "licet.tools" -}}
{{- $pairs := list -}}
{{- range $name, $tool := .Values.tools -}}
{{- $pairs = append $pairs (printf "%s=%s" $name $tool.address) -}}
{{- end -}}
{{- join "," $pairs -}}
{{- end -}}
