internal import CExpat
internal import CoveCore
internal import Glibc

/// Takes the parts of a document as they come; names are `namespace name`, or `name` outside of any namespace.
protocol XMLHandler: AnyObject {
    /// How many rows are complete; each may have so many elements and bytes, and what follows the last one too.
    var completed: Int { get }
    func begin(_ name: String) throws(ProviderError)
    /// The text directly inside the element.
    func end(_ name: String, text: [UInt8]) throws(ProviderError)
}

/// XML from an untrusted server by Expat: streamed, without entities of its own, of bounded depth and width.
final class XMLScanner {
    private static let depthLimit = 64
    private static let textLimit = 64 << 10
    /// What one row may have.
    private static let elementLimit = 20_000
    private static let byteLimit = 4 << 20

    private let parser: XML_Parser?
    private let handler: any XMLHandler
    private var names: [String] = []
    /// Names that were met: few occur again and again.
    private var known: [(bytes: ContiguousArray<CChar>, name: String)] = []
    private static let knownLimit = 64
    private var texts: [[UInt8]] = []
    private var problem: ProviderError?
    /// True once what came was no XML.
    private(set) var isBroken = false
    /// Since the last row.
    private var elements = 0
    private var parsed = 0
    private var completed = 0

    init(_ handler: any XMLHandler) {
        self.handler = handler
        parser = XML_ParserCreateNS("UTF-8", XML_Char(0x20))
        XML_SetUserData(parser, Unmanaged.passUnretained(self).toOpaque())
        XML_SetElementHandler(parser, beginElement, endElement)
        XML_SetCharacterDataHandler(parser, takeText)
        XML_SetStartDoctypeDeclHandler(parser, refuseDoctype)
    }

    deinit { XML_ParserFree(parser) }

    func parse(_ bytes: UnsafeRawBufferPointer) throws(ProviderError) {
        var rest = bytes
        while !rest.isEmpty {
            let part = UnsafeRawBufferPointer(rebasing: rest.prefix(1 << 20))
            try check(XML_Parse(parser, part.bindMemory(to: CChar.self).baseAddress, Int32(part.count), 0))
            parsed += part.count
            guard parsed <= Self.byteLimit + part.count else { throw Self.endless }
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(part.count))
        }
    }

    /// Throws when the document is not complete.
    func finish() throws(ProviderError) { try check(XML_Parse(parser, nil, 0, 1)) }

    private func check(_ status: XML_Status) throws(ProviderError) {
        if let problem { throw problem }
        guard status != XML_STATUS_OK else { return }
        isBroken = true
        let text = XML_ErrorString(XML_GetErrorCode(parser)).map { String(cString: $0) } ?? "unknown"
        throw .failed("the server sent XML that can't be read: \(text)", nil)
    }

    private static let endless = ProviderError.failed("the server sent XML that does not end", nil)

    private func stop(_ error: ProviderError) {
        if problem == nil { problem = error }
        XML_StopParser(parser, XML_FALSE)
    }

    fileprivate func begin(_ name: UnsafePointer<XML_Char>?) {
        guard problem == nil, let name else { return }
        guard names.count < Self.depthLimit else { return stop(.failed("the server sent XML that is too deep", nil)) }
        elements += 1
        guard elements <= Self.elementLimit else { return stop(Self.endless) }
        // Text beside elements means nothing.
        if !texts.isEmpty { texts[texts.count - 1] = [] }
        names.append(text(of: name))
        texts.append([])
        do throws(ProviderError) { try handler.begin(names[names.count - 1]) } catch { stop(error) }
    }

    private func text(of name: UnsafePointer<XML_Char>) -> String {
        for entry in known {
            let isSame = entry.bytes.withUnsafeBufferPointer { $0.baseAddress.map { strcmp($0, name) == 0 } ?? false }
            if isSame { return entry.name }
        }
        let text = String(cString: name)
        guard known.count < Self.knownLimit else { return text }
        known.append((ContiguousArray(UnsafeBufferPointer(start: name, count: strlen(name) + 1)), text))
        return text
    }

    fileprivate func end() {
        guard problem == nil, let name = names.popLast(), let text = texts.popLast() else { return }
        do throws(ProviderError) { try handler.end(name, text: text) } catch { stop(error) }
        if handler.completed != completed { (completed, elements, parsed) = (handler.completed, 0, 0) }
    }

    fileprivate func take(_ text: UnsafeBufferPointer<XML_Char>) {
        guard problem == nil, !texts.isEmpty else { return }
        guard texts[texts.count - 1].count + text.count <= Self.textLimit else {
            return stop(.failed("the server sent XML with an endless text", nil))
        }
        texts[texts.count - 1].append(contentsOf: UnsafeRawBufferPointer(text))
    }

    fileprivate func refuse() {
        stop(.failed("the server sent XML with a document type, which may hold anything", nil))
    }
}

private func scanner(_ pointer: UnsafeMutableRawPointer?) -> XMLScanner? {
    pointer.map { Unmanaged<XMLScanner>.fromOpaque($0).takeUnretainedValue() }
}

private func beginElement(
    _ this: UnsafeMutableRawPointer?,
    _ name: UnsafePointer<XML_Char>?,
    _ attributes: UnsafeMutablePointer<UnsafePointer<XML_Char>?>?
) {
    scanner(this)?.begin(name)
}

private func endElement(_ this: UnsafeMutableRawPointer?, _ name: UnsafePointer<XML_Char>?) { scanner(this)?.end() }

private func takeText(_ this: UnsafeMutableRawPointer?, _ text: UnsafePointer<XML_Char>?, _ count: Int32) {
    scanner(this)?.take(UnsafeBufferPointer(start: text, count: Int(count)))
}

private func refuseDoctype(
    _ this: UnsafeMutableRawPointer?,
    _ name: UnsafePointer<XML_Char>?,
    _ system: UnsafePointer<XML_Char>?,
    _ publicID: UnsafePointer<XML_Char>?,
    _ hasSubset: Int32
) {
    scanner(this)?.refuse()
}
