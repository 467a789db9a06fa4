import CoveCore
import CoveTestSupport
import Foundation

/// A Chromium without a window, driven by its own protocol, which it speaks on two pipes: JSON texts that end with NUL.
final class Browser {
    private let process: pid_t
    private let input: Int32
    private let output: Int32
    private var bytes: [UInt8] = []
    private var number: Int64 = 0
    private var session: String?

    /// Starts one that keeps what it has to keep in a folder.
    init(folder: String) throws {
        let (toBrowser, fromBrowser) = try (System.pipe(), System.pipe())
        process = try ChildProcess.start(
            [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                "--disable-extensions", "--remote-debugging-pipe", "--user-data-dir=\(folder)", "about:blank",
            ],
            program: "chromium",
            descriptors: [toBrowser.read, fromBrowser.write],
            standardError: .null,
            group: .own
        )
        System.close(toBrowser.read)
        System.close(fromBrowser.write)
        (input, output) = (toBrowser.write, fromBrowser.read)
        let target = try call("Target.createTarget", ["url": .string("about:blank")])["targetId"]?.text
        let attached: [String: JSONValue] = ["targetId": .string(target ?? ""), "flatten": .bool(true)]
        session = try call("Target.attachToTarget", attached)["sessionId"]?.text
        for domain in ["Page", "Runtime", "Accessibility"] { try call("\(domain).enable") }
        // A browser that is in front draws and gives focus.
        try call("Emulation.setFocusEmulationEnabled", ["enabled": .bool(true)])
    }

    deinit {
        kill(-process, SIGKILL)
        ChildProcess.end(process)
        System.close(input)
        System.close(output)
    }

    /// Calls a method and waits for its answer.
    @discardableResult
    func call(_ method: String, _ parameters: [String: JSONValue] = [:]) throws -> JSONValue {
        number += 1
        var message: [String: JSONValue] = [
            "id": .integer(number), "method": .string(method), "params": .object(parameters),
        ]
        if let session { message["sessionId"] = .string(session) }
        try (JSONValue.object(message).bytes + [0]).withUnsafeBytes { try System.writeAll(input, $0) }
        while true {
            let answer = try next()
            guard answer["id"] == .integer(number) else { continue }
            if let error = answer["error"] { throw CommandFailure("\(method): \(error)") }
            return answer["result"] ?? .null
        }
    }

    private func next() throws -> JSONValue {
        var block = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            if let end = bytes.firstIndex(of: 0) {
                let message = Array(bytes[..<end])
                bytes.removeFirst(end + 1)
                return try JSONValue(parsing: message, nestedTo: 200)
            }
            var entry = pollfd(fd: output, events: Int16(POLLIN), revents: 0)
            guard try System.retry({ poll(&entry, 1, 60_000) }) == 1 else {
                throw CommandFailure("the browser is silent")
            }
            let count = try System.retry { read(output, &block, block.count) }
            guard count > 0 else { throw CommandFailure("the browser has ended") }
            bytes += block.prefix(count)
        }
    }

    /// What a script comes to.
    func evaluate(_ script: String) throws -> JSONValue {
        let answer = try call(
            "Runtime.evaluate",
            ["expression": .string(script), "returnByValue": .bool(true), "awaitPromise": .bool(true)]
        )
        if let problem = answer["exceptionDetails"] { throw CommandFailure("\(script): \(problem)") }
        return answer["result"]?["value"] ?? .null
    }

    /// The text that a script comes to; empty for anything else.
    func text(_ script: String) throws -> String { try evaluate(script).text ?? "" }

    /// Waits until a script comes to true.
    func wait(for script: String) throws {
        try waitUntil("\(script); the page is \((try? text("document.body.innerText.slice(0, 2000)")) ?? "-")") {
            do {
                return try evaluate("!!(\(script))") == .bool(true)
            } catch {
                // One page has just made room for the next.
                guard "\(error)".contains("navigated or closed") else { throw error }
                return false
            }
        }
    }

    /// Goes to an address.
    func open(_ address: String) throws { try call("Page.navigate", ["url": .string(address)]) }

    /// Shows the page in a window of some size, light or dark.
    func show(width: Int64, height: Int64, isDark: Bool = false) throws {
        try call(
            "Emulation.setDeviceMetricsOverride",
            [
                "width": .integer(width), "height": .integer(height), "deviceScaleFactor": .integer(1),
                "mobile": .bool(false),
            ]
        )
        let scheme: [String: JSONValue] = [
            "name": .string("prefers-color-scheme"), "value": .string(isDark ? "dark" : "light"),
        ]
        try call("Emulation.setEmulatedMedia", ["features": .array([.object(scheme)])])
    }

    /// Presses a key, by the name that scripts know it by, or types a letter.
    func press(_ keys: String...) throws {
        let codes: [String: Int64] = [
            "Backspace": 8, "Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38,
            "ArrowRight": 39, "ArrowDown": 40,
        ]
        for key in keys {
            let code = codes[key] ?? key.uppercased().utf8.first.map { Int64($0) } ?? 0
            var event: [String: JSONValue] = [
                "key": .string(key), "code": .string(codes[key] == nil ? "Key\(key.uppercased())" : key),
                "windowsVirtualKeyCode": .integer(code),
            ]
            event["type"] = .string("keyUp")
            let up = event
            event["type"] = .string("keyDown")
            if key == "Enter" { event["text"] = .string("\r") }
            if key.count == 1 { event["text"] = .string(key) }
            try call("Input.dispatchKeyEvent", event)
            try call("Input.dispatchKeyEvent", up)
        }
    }

    /// Names and roles of everything that a screen reader finds on the page, as `role: name`.
    func accessibleItems() throws -> [(role: String, name: String)] {
        guard case .array(let nodes) = try call("Accessibility.getFullAXTree")["nodes"] else { return [] }
        return nodes.compactMap { node in
            guard node["ignored"]?.truth != true, let role = node["role"]?["value"]?.text else { return nil }
            return (role, node["name"]?["value"]?.text ?? "")
        }
    }

    /// Keeps a picture of the page where COVE_PICTURES names a folder for it.
    func keepPicture(_ name: String) throws {
        guard let folder = ProcessInfo.processInfo.environment["COVE_PICTURES"] else { return }
        let shot = try call("Page.captureScreenshot", ["format": .string("png")])["data"]?.text ?? ""
        try Data(base64Encoded: shot)?.write(to: URL(fileURLWithPath: "\(folder)/\(name).png"))
    }
}
