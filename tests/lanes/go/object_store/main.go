// Objects in a store that speaks S3: a stored one, a list, one read back, and errors.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"svc/guest"
)

var bucket = aws.String("bucket")

func main() {
	guest.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client := s3.New(s3.Options{
			Region:       "eu-central-1",
			BaseEndpoint: aws.String(os.Getenv("STORE")),
			UsePathStyle: true,
			Credentials:  credentials.NewStaticCredentialsProvider("key", "secret", ""),
		})
		if err := json.NewEncoder(w).Encode(try(r.Context(), client)); err != nil {
			panic(err)
		}
	}))
}

func try(ctx context.Context, client *s3.Client) map[string]any {
	results := map[string]any{}
	_, err := client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: bucket, Key: aws.String("new"), Body: strings.NewReader("tea"),
	})
	results["stored"] = err == nil
	if list, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: bucket}); err == nil {
		keys := []string{}
		for _, each := range list.Contents {
			keys = append(keys, *each.Key)
		}
		results["keys"] = keys
	}
	for _, key := range []string{"key", "none", "denied"} {
		object, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: aws.String(key)})
		if err != nil {
			var missing *types.NoSuchKey
			var failure smithy.APIError
			errors.As(err, &failure)
			results[key] = []any{errors.As(err, &missing), failure.ErrorCode(), failure.ErrorMessage()}
			continue
		}
		text, err := io.ReadAll(object.Body)
		results[key] = []any{string(text), err}
	}
	return results
}
