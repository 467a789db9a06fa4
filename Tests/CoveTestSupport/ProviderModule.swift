import Foundation

/// Lines of Python after which `module` is one of the providers that Cove comes with, and `cove_provider` can be imported.
public func providerModule(_ name: String) -> String {
    let providers = FileManager.default.currentDirectoryPath + "/Providers"
    return """
        import importlib.machinery, importlib.util, sys
        sys.dont_write_bytecode = True
        sys.path.insert(0, "\(providers)")
        loader = importlib.machinery.SourceFileLoader("provider", "\(providers)/\(name)")
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader("provider", loader))
        loader.exec_module(module)
        """
}
