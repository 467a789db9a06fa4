internal import CoveCore

/// The page: its markup here, its style and its script in files of their own.
enum PickerPage {
    /// What a browser sees for the token: it goes on to the page, whose address tells nothing.
    static let entrance = """
        <!doctype html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta http-equiv="refresh" content="0; url=/">
        <title>Cove</title>
        </head>
        <body><main><h1>Cove</h1><p><a href="/">Go on to the documents</a></p></main></body>
        </html>

        """

    /// The page for a request; the secret lets its script make calls.
    static func page(for request: PickerRequest, callSecret: String) -> String {
        let (title, purpose, action) = words(request)
        let name =
            request.mode.choosesFolder
            ? """
            <div class="name">
            <label for="name">Name</label>
            <input type="text" id="name" maxlength="255" autocomplete="off" spellcheck="false">
            </div>
            """ : ""
        return """
            <!doctype html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta name="color-scheme" content="light dark">
            <meta name="call" content="\(callSecret)">
            <title>\(escaped(title)) – Cove</title>
            <link rel="stylesheet" href="/picker.css">
            <script src="/picker.js" defer></script>
            </head>
            <body>
            <header>
            <h1 id="title" tabindex="-1">\(escaped(title))</h1>
            <p>\(escaped(purpose))</p>
            </header>
            <nav aria-label="Folders above"><ol id="crumbs"></ol></nav>
            <div role="search" class="search">
            <label for="filter">Filter by name</label>
            <input type="search" id="filter" maxlength="255" autocomplete="off" spellcheck="false" aria-controls="items">
            </div>
            <main>
            <h2 id="folder">Documents</h2>
            <p id="status" role="status" aria-live="polite"></p>
            <p id="error" role="alert"></p>
            <button type="button" id="again" hidden>Try again</button>
            <ul id="items" role="listbox" aria-labelledby="folder" aria-describedby="keys"></ul>
            <div id="end"></div>
            <p id="keys" class="keys">Arrow keys move, Enter goes into a folder or chooses, Backspace goes up, Escape leaves.</p>
            </main>
            <footer>
            \(name)
            <div class="buttons">
            <button type="button" id="cancel">Cancel</button>
            <button type="button" id="choose" class="primary" disabled>\(escaped(action))</button>
            </div>
            </footer>
            <noscript><p>This page needs its script. Run <code>cove pick</code> without <code>--web</code> instead.</p></noscript>
            </body>
            </html>

            """
    }

    private static func words(_ request: PickerRequest) -> (title: String, purpose: String, action: String) {
        let file = request.fileName.escapingControls
        return switch request.mode {
        case .import: ("Choose a document", "\(request.app) gets a copy of its own.", "Choose")
        case .open: ("Choose a document", "\(request.app) works on the document itself.", "Open")
        case .export: ("Choose a folder", "A copy of “\(file)” goes there; the file stays where it is.", "Copy here")
        case .move: ("Choose a folder", "“\(file)” is moved there, and \(request.app) goes on with it.", "Move here")
        }
    }

    /// A text as markup shows it, also inside an attribute.
    static func escaped(_ text: String) -> String {
        var result = ""
        for character in text.unicodeScalars {
            switch character {
            case "&": result += "&amp;"
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            case "\"": result += "&quot;"
            case "'": result += "&#39;"
            default: result.unicodeScalars.append(character)
            }
        }
        return result
    }
}
