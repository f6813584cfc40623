{{/* A job before install and upgrade: a dict of root, component, weight, image, command, args, env, mounts, volumes, user. */}}
{{- define "licet.job" -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ include "licet.fullname" .root }}-{{ .component }}
  labels:
    {{- include "licet.labels" . | nindent 4 }}
  annotations:
    helm.sh/hook: pre-install,pre-upgrade
    helm.sh/hook-weight: {{ .weight | quote }}
    helm.sh/hook-delete-policy: before-hook-creation
spec:
  backoffLimit: 3
  activeDeadlineSeconds: {{ .root.Values.jobs.deadlineSeconds }}
  template:
    metadata:
      labels:
        {{- include "licet.labels" . | nindent 8 }}
    spec:
      restartPolicy: Never
      {{- include "licet.podSecurity" .root | nindent 6 }}
      containers:
        - name: {{ .component }}
          image: {{ include "licet.image" .image }}
          imagePullPolicy: {{ .image.pullPolicy }}
          command: {{ .command | toJson }}
          env:
            {{- include "licet.env" . | nindent 12 }}
            {{- with .env }}
            {{- . | nindent 12 }}
            {{- end }}
          resources:
            requests: {cpu: 100m, memory: 128Mi}
            limits: {memory: 256Mi}
          {{- include "licet.containerSecurity" .root | nindent 10 }}
          volumeMounts:
            {{- include "licet.mounts" . | nindent 12 }}
            {{- with .mounts }}
            {{- . | nindent 12 }}
            {{- end }}
      volumes:
        {{- include "licet.volumes" . | nindent 8 }}
        {{- with .volumes }}
        {{- . | nindent 8 }}
        {{- end }}
{{- end -}}
