export default function About() {
  return (
    <>
      <h1>About</h1>
      <p>
        This page is a file. The <a href="/">first page</a> is rendered for each request.
      </p>
    </>
  );
}
