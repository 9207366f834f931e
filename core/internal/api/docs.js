// Sends the request of the page with a public key. Without this script the form is hidden.
const form = document.querySelector("form[data-try]");
form.hidden = false;
document.querySelector("[data-try-off]").hidden = true;
form.addEventListener("submit", async (event) => {
	event.preventDefault();
	const body = {};
	for (const name of ["public_key", "integration_id", "callback_url"]) body[name] = form.elements[name].value.trim();
	const shown = document.querySelector("[data-try-response]"), link = document.querySelector("[data-try-link]");
	link.hidden = true;
	shown.hidden = false;
	shown.textContent = "…";
	try {
		const response = await fetch(form.dataset.try, { method: "POST",
			headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
		const text = await response.text();
		shown.textContent = response.status + "\n" + text;
		const to = response.ok ? new URL(JSON.parse(text).redirect_url) : undefined;
		if (to && to.origin === location.origin) {
			link.hidden = false;
			link.querySelector("a").href = to.href;
		}
	} catch (error) {
		shown.textContent = "No response: " + error.message;
	}
});
